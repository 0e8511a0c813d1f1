"""Measure embedders, so that their cosines become relevances from 0 to 1 that are comparable.

A cosine says little by itself: unrelated texts have a cosine of 0.0 with one embedder and 0.7 with another. So each
embedder is measured once, on pairs that are known to be relevant (`PAIRS`) and on the same texts crossed, which are
not; a logistic curve through both gives the relevance of a cosine. `bench/calibrate.py` prints the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.base import Embedder

Numbers = NDArray[np.floating[Any]]

# Only the nearest third of the unrelated texts count: distant ones are easy to tell apart, and with them the curve
# would be so steep that everything on the topic of a query had a relevance of 1.
_NEAREST = 1 / 3
# The curve of an embedder that hardly separates related from unrelated texts is flatter than `_FLATTEST`. That is not
# an error, it may be a fake for tests; this calibration makes equal texts relevant, and few others.
_FLATTEST = 4.0
_FALLBACK = Calibration(middle=0.5, steepness=10.0)
# L2 penalty: keeps the curve finite if an embedder separates all pairs. With a smaller one its middle would lie
# anywhere between the two groups.
_PENALTY = 1e-3
_STEPS = 50


def calibrate(embedder: Embedder) -> Calibration:
    """Measure the calibration of an embedder by embedding `PAIRS`."""
    return fit(cosines(embedder))


def cosines(embedder: Embedder) -> Numbers:
    """Return the cosine of each query (a row) with each text (a column); the relevant ones are on the diagonal."""
    vectors = embedder.embed([query for query, _ in PAIRS] + [text for _, text in PAIRS])
    return (vectors[: len(PAIRS)] @ vectors[len(PAIRS) :].T).astype(np.float64)


def fit(cosines: Numbers) -> Calibration:
    """Fit the curve that best separates the diagonal of a square matrix of cosines from the nearest of the others.

    Both groups have the same total weight, so the middle is where both are equally likely.
    """
    related = np.diagonal(cosines)
    beside = cosines[~np.eye(len(cosines), dtype=bool)].reshape(len(cosines), -1)
    count = math.ceil(beside.shape[1] * _NEAREST)
    unrelated = np.sort(beside, axis=1)[:, -count:].ravel()
    if related.mean() <= unrelated.mean():
        return _FALLBACK
    curve = _logistic(related, unrelated)
    return curve if curve.steepness >= _FLATTEST else _FALLBACK


def _logistic(related: Numbers, unrelated: Numbers) -> Calibration:
    """Logistic regression by Newton's method, with an L2 penalty on the slope."""
    both = np.concatenate((related, unrelated))
    truth = np.concatenate((np.ones(len(related)), np.zeros(len(unrelated))))
    weights = np.where(truth == 1.0, 0.5 / len(related), 0.5 / len(unrelated))
    center, spread = both.mean(), both.std()
    inputs = np.stack((np.ones(len(both)), (both - center) / spread), axis=1)
    penalty = np.diag((0.0, _PENALTY))
    line = np.zeros(2)
    for _ in range(_STEPS):
        guess = 1.0 / (1.0 + np.exp(-(inputs @ line)))
        gradient = inputs.T @ (weights * (truth - guess)) - penalty @ line
        hessian = (inputs * (weights * guess * (1.0 - guess))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(hessian, gradient)
        line = line + step
        if np.abs(step).max() < 1e-9:
            break
    return Calibration(middle=float(center - line[0] / line[1] * spread), steepness=float(line[1] / spread))


PAIRS: tuple[tuple[str, str], ...] = (
    # Questions about people
    ("What does Ada like to drink in the morning?", "Ada starts every day with a strong espresso and no sugar."),
    ("Is anyone on the team allergic to something?", "Bruno cannot eat peanuts or shellfish; they give him a rash."),
    ("Where does Carla live now?", "Carla moved to a small flat in Lisbon last autumn."),
    ("What instrument does Dmitri play?", "Dmitri practises the cello for an hour before dinner."),
    ("When is Elena's birthday?", "Elena was born on the ninth of June and celebrates with her twin sister."),
    (
        "Who looks after the twins on weekdays?",
        "Grandmother picks both children up from kindergarten, Monday to Friday.",
    ),
    ("What pets does Farid have?", "Farid adopted two grey cats from the shelter, and a tortoise."),
    ("Which languages does Greta speak?", "Greta is fluent in Swedish and German and is learning Portuguese."),
    (
        "How does Hugo get to work?",
        "Hugo cycles to the office along the canal unless it rains; then he takes the tram.",
    ),
    ("What is Ines studying?", "Ines is in her second year of marine biology at the university."),
    ("Does Jonas eat meat?", "Jonas has been a vegetarian since he was fifteen."),
    ("What is Keiko afraid of?", "Keiko panics when she sees a spider, even a tiny one."),
    # Preferences and notes an agent keeps
    ("preferred tone for e-mails", "Write messages short and friendly, without formal phrases or exclamation marks."),
    ("dark or light theme", "The user wants a black background in every editor."),
    ("favourite programming language", "She writes most of her code in Rust and dislikes Java."),
    ("when is the user available for meetings", "Appointments only between ten and noon, never on Fridays."),
    ("seat choice on flights", "Always book the aisle, close to the front of the plane."),
    ("units to use for temperatures", "Report how warm it is in Celsius, not in Fahrenheit."),
    ("how the customer wants to pay", "They prefer an invoice with bank transfer; no credit card is on file."),
    ("hotel requirements", "The room has to be quiet, with a desk and breakfast included."),
    # Company and support
    (
        "How long do refunds take?",
        "After we receive the returned parcel, the money is back on your account in five days.",
    ),
    ("Can I change my delivery address after ordering?", "Until the package ships, the destination can be edited."),
    (
        "How do I reset my password?",
        "Click on forgotten password on the sign-in page; we mail you a link to set a new one.",
    ),
    ("What does the premium plan cost?", "The larger subscription is 49 euros a month, billed yearly."),
    ("Is there a discount for students?", "With a university card you get thirty percent off the price."),
    ("product quality complaints", "The handle broke after two days, and the replacement was scratched as well."),
    (
        "Why was the order late?",
        "The courier lost the parcel in its depot, so the shipment arrived a week after the date.",
    ),
    (
        "warranty period of the dishwasher",
        "The manufacturer repairs defects of the machine free of charge for three years.",
    ),
    ("Who approves travel expenses?", "Trips above 500 euros are signed off by the head of finance."),
    ("How many vacation days do employees get?", "Staff have twenty-eight days of paid leave a year."),
    ("quarterly revenue figures", "Sales came to 4.2 million in the three months to September, up nine percent."),
    ("What is the notice period?", "Either side may end the employment contract with six weeks of warning."),
    ("Which supplier delivers the steel?", "We buy sheet metal from a mill in Linz under a two-year agreement."),
    ("hiring plans for next year", "We will recruit four engineers and a designer in January."),
    ("Who are our main competitors?", "Our strongest rivals in the market are Northwind and Fabrikam."),
    (
        "How do we handle security incidents?",
        "Report a breach within the hour to the response team, then isolate the server.",
    ),
    # Software and operations
    ("Why did the deployment fail?", "The rollout stopped because a database migration timed out on the replica."),
    ("How do I run the tests?", "Execute the suite with the make command in the root of the repository."),
    ("Where are the logs stored?", "The service writes its log files to a bucket, which keeps them for thirty days."),
    ("memory leak in the worker", "The background process grew to nine gigabytes of RAM until the kernel killed it."),
    ("How often are backups made?", "A snapshot of the data is taken every night and copied to another region."),
    (
        "What is the rate limit of the API?",
        "Clients may send one hundred requests a minute; beyond that they get a 429.",
    ),
    ("certificate expired", "The TLS key of the website ran out on Sunday, and browsers warned every visitor."),
    ("Which database do we use?", "All services keep their tables in PostgreSQL; analytics runs on ClickHouse."),
    (
        "Why is the page slow?",
        "It loads eleven megabytes of images before the first paint, which takes seconds on a phone.",
    ),
    ("who is on call this week", "Pager duty is with Priya until Thursday and with Tomasz after that."),
    # Home and everyday
    ("How do I get red wine out of a carpet?", "Dab the stain with soda water and salt; do not rub the rug."),
    ("When do we have to water the tomatoes?", "The vegetable plants on the balcony need a can of water each evening."),
    ("code for the garage door", "To open the gate where the car is parked, type 4471 and the hash key."),
    (
        "What was wrong with the heating?",
        "The technician changed a broken valve in the boiler, and the radiators are warm again.",
    ),
    (
        "recipe for a quick dinner",
        "Boil spaghetti, fry garlic and chilli in olive oil, toss and serve after ten minutes.",
    ),
    ("When is the rubbish collected?", "Bins go out on Tuesday evening; paper is taken every second week."),
    ("Where did we put the spare key?", "The second one for the front door hangs behind the flower pot."),
    ("How much is the rent?", "The landlord gets 1,150 a month for the apartment, electricity not included."),
    (
        "wifi at grandma's house",
        "The network at my grandparents' is called Sunflower, and its password is on the router.",
    ),
    # Health and sport
    ("What medicine does father take?", "Dad has one tablet for his blood pressure at breakfast."),
    ("When is the next dentist appointment?", "The check-up of my teeth is on the third of March at half past eight."),
    ("How did the knee injury happen?", "She twisted her leg while skiing and tore a ligament."),
    ("training plan for the marathon", "Run three times a week and add two kilometres to the long run every Sunday."),
    ("Why can't he sleep?", "He lies awake until three because of the noise and too much coffee."),
    ("Who won the match on Saturday?", "The home team beat the visitors by two goals to one at the weekend."),
    # Travel and leisure
    ("Where are we going on holiday?", "In August the whole family flies to Crete for two weeks by the sea."),
    ("What time does the train leave?", "Departure to Vienna is at 7:42 from platform nine."),
    (
        "Which museums are worth a visit?",
        "The gallery of modern art has the best paintings, and entrance is free on Sundays.",
    ),
    (
        "Do I need a visa for Japan?",
        "Tourists with a European passport may stay in Tokyo for ninety days without papers.",
    ),
    (
        "What was the name of that film with the lighthouse?",
        "The movie about two keepers on an island was shot in black and white.",
    ),
    ("books she enjoyed", "Her favourite novel is a detective story set in Istanbul; she read it in one night."),
    ("What did they give as a wedding present?", "The couple got a set of copper pans from their colleagues."),
    # Science and the world
    ("Why is the sky blue?", "Air scatters short wavelengths of sunlight more than long ones."),
    (
        "How do vaccines work?",
        "An injection shows the immune system a harmless piece of the virus, so that it learns to fight it.",
    ),
    ("What causes the tides?", "The pull of the moon makes the level of the ocean rise and fall twice a day."),
    ("How deep is the lake?", "At its lowest point the water reaches two hundred metres down."),
    ("effects of inflation on savings", "As prices rise, money in the bank buys less each year."),
    (
        "Who painted the ceiling of the chapel?",
        "Michelangelo worked four years on the frescoes above the altar in Rome.",
    ),
    # Pairs that say it in nearly the same words
    ("When was the lease of the warehouse signed?", "We signed the lease of the Rotterdam warehouse on 4 May."),
    ("sister's phone number", "The phone number of my sister Lena is 555 0173."),
    ("Which hospital was Otto born in?", "Otto was born in Saint Anne's hospital during a snow storm."),
    ("What colour is the new sofa?", "The new sofa is dark green, a colour that nobody else wanted."),
    ("budget for the trade fair", "The budget for the trade fair in Hanover is 18,000 dollars."),
    ("What breed is the neighbour's dog?", "Our neighbour's dog is a beagle called Biscuit that barks at cyclists."),
    ("How many people attended the workshop?", "Thirty-one people attended the pottery workshop, more than ever."),
    ("invoice INV-2041", "Invoice INV-2041 over 960 dollars was sent to Contoso and is still open."),
    ("What does the error E1207 mean?", "Error E1207 means that the printer has no toner left."),
    ("Does Mei like jazz?", "Mei likes jazz, above all old piano trios."),
    ("Who designed the logo?", "The logo was designed by a studio in Porto."),
    ("Where is the charger of the camera?", "I left the camera's charger in the drawer under the television."),
    ("ingredients of the pancake batter", "Pancake batter: two eggs, flour, milk and a pinch of salt."),
    ("What did Nadia say about the merger?", "Nadia said that the merger would be announced in spring."),
    ("How tall is the tower?", "The tower is 212 metres tall, antenna included."),
    ("Why was the concert cancelled?", "They cancelled the concert because the singer had lost her voice."),
    ("What is the capital of Mongolia?", "Ulaanbaatar, the capital of Mongolia, is the coldest one there is."),
    ("Which version fixed the login bug?", "The bug in the login form was fixed in version 2.3.1."),
    ("How long does the battery last?", "A full battery of the drone lasts twenty-six minutes."),
    ("insurance of the van", "The insurance of the delivery van has to be renewed before July."),
    ("Where did Pavel go to school?", "Pavel went to a boarding school in the mountains near Brno."),
    ("What is the deadline for the grant proposal?", "The grant proposal has its deadline at midnight on 30 November."),
    ("Did Rosa finish her thesis?", "Rosa finished her thesis about medieval bridges with top marks."),
    ("Which wine goes with mushroom risotto?", "With a mushroom risotto I would open a light red wine."),
    # Longer texts, of which one sentence answers
    (
        "How do I cancel my membership?",
        "Welcome to the climbing hall. The walls are open from nine to eleven at night, and shoes can be hired at the "
        "desk. A membership runs for a year; you can cancel it in writing four weeks before it ends. Children under "
        "twelve climb only with an adult who holds the rope.",
    ),
    (
        "Which paint was used for the boat?",
        "In April we hauled the boat out and scraped the hull clean. Two planks at the stern were rotten and had to be "
        "replaced. After sanding, she got two coats of red lead paint and one of white enamel. We launched her again "
        "in the first week of May.",
    ),
    (
        "What happened at the shareholders' assembly?",
        "The owners of the company met on Wednesday in Zurich. They voted for a dividend of two francs a share and "
        "chose a new chair of the board. A motion to close the plant in Ghent was turned down by a narrow majority.",
    ),
    (
        "food for the puppy",
        "The young dog gets three small meals a day, dry kibble soaked in warm water. No bones and no chocolate. He "
        "sleeps in the basket next to the stove, and has to be let out at six, or the kitchen floor suffers.",
    ),
    (
        "What caused the outage on Monday?",
        "At 09:14 the checkout began to answer with errors. A new firewall rule had cut the payment service off from "
        "its queue. Orders piled up for forty minutes until the rule was taken back. No payments were lost, and "
        "customers got a message of apology.",
    ),
    (
        "How should the orchid be cared for?",
        "Orchids want light but no direct sun, so a window to the east is best. Dip the pot in water once a week and "
        "let it drain. Cut the stem above the second knot when the blossoms have fallen, and it will flower again.",
    ),
    (
        "terms of the loan",
        "The bank lends 240,000 at a fixed interest of 3.1 percent for ten years. It is paid back in monthly "
        "instalments. Up to five percent of the sum may be repaid early each year without a fee. The house is the "
        "security.",
    ),
    (
        "What is Viktor good at?",
        "Viktor joined the crew in 2019 as a welder. He repairs pumps that others have given up, and explains things "
        "patiently to the apprentices. He does not like paperwork, and his reports are often a week late.",
    ),
    (
        "Can the meeting room be booked for a party?",
        "Rooms on the second floor hold up to twenty guests. They can be reserved by anyone in the building for "
        "celebrations, in the evening and at weekends. Music has to stop at ten. Whoever used the room sweeps it and "
        "brings the key back to the caretaker.",
    ),
    (
        "How was the weather during the hike?",
        "We left the hut at dawn under a clear sky. By noon clouds had come up from the valley, and on the ridge we "
        "walked into hail and thunder. Drenched, we reached the village at four, where the inn had soup and a fire.",
    ),
    (
        "steps to onboard a new colleague",
        "Before the first day, order a laptop and create the accounts. On the first morning, somebody shows the "
        "newcomer around and has lunch with them. In the first week they get a mentor and a small task of their own. "
        "After a month, ask how it went.",
    ),
    (
        "What did the doctor advise against back pain?",
        "The X-ray showed nothing serious. She should swim twice a week, change her chair, and get up from the desk "
        "every hour. If the spine still hurts in six weeks, the doctor will send her to a physiotherapist.",
    ),
    (
        "How do customers contact support?",
        "Our shop is open around the clock. Questions are answered by chat from eight to six, and by telephone on "
        "working days. For anything that can wait, write to the help desk; it replies within one day. Please have your "
        "order number at hand.",
    ),
    (
        "Where did the idea for the novel come from?",
        "The author grew up beside a railway, in a family of signalmen. A letter that she found in her uncle's attic, "
        "never sent, gave her the plot. She wrote the book in two winters, at night, and threw away the first ending.",
    ),
    (
        "risks of the project",
        "The bridge is to open in two years. The largest danger is the river bed: if the drilling hits clay, the piers "
        "have to be set deeper, at twice the cost. Crane operators are hard to find. Public support is strong, and the "
        "money has been granted.",
    ),
    (
        "How do I descale the coffee machine?",
        "Empty the tray when the red light is on. For lime, fill the tank with water and two spoons of citric acid, "
        "let half of it run through, wait for twenty minutes and rinse twice. Grease the brewing group every three "
        "months. Use filtered water, and you will have to do it less often.",
    ),
)
