// Conveniences for forms. Every page works without them, and the server validates everything again.

function watch(element, see) {
  element.addEventListener("input", see);
  see();
}

// On small screens the sections are a scrolling row: scroll to the current one.
for (const current of document.querySelectorAll(".side [aria-current]")) {
  const row = current.closest("nav");
  row.scrollLeft = current.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
}

// Show an error where the results would be; follow a response that is another page.
document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (new DOMParser().parseFromString(detail.serverResponse, "text/html").getElementById("results")) {
    detail.shouldSwap = true;
    detail.isError = false;
  } else {
    detail.shouldSwap = false;
    location.assign(detail.xhr.responseURL);
  }
});

// Count the characters of a text as the server does: by code points.
for (const text of document.querySelectorAll("[data-count]")) {
  const count = document.getElementById(text.dataset.count);
  const limit = Number(text.dataset.limit);
  watch(text, () => {
    const used = [...text.value].length;
    count.textContent = `${used.toLocaleString("en")} of ${limit.toLocaleString("en")} characters`;
    count.classList.toggle("bad-text", used > limit);
  });
}

// Check JSON while it is typed.
for (const text of document.querySelectorAll("[data-json]")) {
  const note = document.getElementById(text.dataset.json);
  const said = note.textContent;
  watch(text, () => {
    try {
      JSON.parse(text.value);
      note.textContent = said;
      note.classList.remove("bad-text");
    } catch (error) {
      note.textContent = `Not JSON yet: ${error.message}`;
      note.classList.add("bad-text");
    }
  });
}

// Derive the slug from the name until the user edits it.
for (const slug of document.querySelectorAll("[data-slug-of]")) {
  const name = document.getElementById(slug.dataset.slugOf);
  let own = slug.value !== "";
  slug.addEventListener("input", () => { own = slug.value !== ""; });
  name.addEventListener("input", () => {
    if (!own) {
      slug.value = name.value.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
    }
  });
}

// Enable the button of an irreversible action once the right word is typed.
for (const typed of document.querySelectorAll("[data-must-be], [data-must-equal]")) {
  const button = typed.form.querySelector("button");
  const other = typed.dataset.mustEqual ? document.getElementById(typed.dataset.mustEqual) : null;
  const see = () => {
    const wanted = other ? other.value.trim() : typed.dataset.mustBe;
    button.disabled = wanted === "" || typed.value.trim() !== wanted;
  };
  watch(typed, see);
  other?.addEventListener("input", see);
}
