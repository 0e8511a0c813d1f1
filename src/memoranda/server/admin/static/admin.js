// What makes forms kinder. Every page works without it; the server checks everything again.

function watch(element, see) {
  element.addEventListener("input", see);
  see();
}

// On a small screen the sections are one row that scrolls: begin where the current one is.
for (const current of document.querySelectorAll(".side [aria-current]")) {
  const row = current.closest("nav");
  row.scrollLeft = current.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
}

// What is wrong with a question is shown where its answer would be; an answer that is another page is gone to.
document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (new DOMParser().parseFromString(detail.serverResponse, "text/html").getElementById("results")) {
    detail.shouldSwap = true;
    detail.isError = false;
  } else {
    detail.shouldSwap = false;
    location.assign(detail.xhr.responseURL);
  }
});

// How many characters a text has, of those that it may have. Counted as the server counts: by code points.
for (const text of document.querySelectorAll("[data-count]")) {
  const count = document.getElementById(text.dataset.count);
  const limit = Number(text.dataset.limit);
  watch(text, () => {
    const used = [...text.value].length;
    count.textContent = `${used.toLocaleString("en")} of ${limit.toLocaleString("en")} characters`;
    count.classList.toggle("bad-text", used > limit);
  });
}

// Whether a text is JSON, as it is typed.
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

// A slug that follows the name, until somebody writes one.
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

// What cannot be undone has a button that waits until the right word was typed.
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
