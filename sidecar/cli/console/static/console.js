// What pages need besides htmx: pausing updates, following a turn, and reading a token from a file.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const pause = document.getElementById("pause-updates");
  if (pause && pause.checked) event.preventDefault();
});

// The operator may be reading an open detail, so the element that replaces it must be open, too.
let openIds = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  openIds = Array.from(event.target.querySelectorAll("details[open]"), (each) => each.id);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of openIds) document.getElementById(id)?.setAttribute("open", "");
});

// An open turn: the console sends an event when something has happened in it, and htmx requests the part that changes.
// A browser opens at most six connections to the console, in all tabs together, so a hidden tab closes its own.
for (const live of document.querySelectorAll("[data-changes]")) {
  // Twice, 300 ms apart: the sidecar reports an event while it is still being written, and the page reads only what is
  // written.
  let secondTimer = 0;
  const renew = () => {
    htmx.trigger(live, "turn-changed");
    clearTimeout(secondTimer);
    secondTimer = setTimeout(() => htmx.trigger(live, "turn-changed"), 300);
  };
  let changes = null;
  let ended = false;
  const follow = () => {
    changes?.close();
    if (document.hidden || ended) return;
    changes = new EventSource(live.dataset.changes);
    changes.addEventListener("message", renew);
    changes.addEventListener("last", () => {
      ended = true;
      changes.close();
      renew();
    });
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}

document.addEventListener("htmx:responseError", (event) => {
  event.target.setAttribute("data-stale", "the console does not answer; this is what it last said");
});
document.addEventListener("htmx:sendError", (event) => {
  event.target.setAttribute("data-stale", "the console cannot be reached; this is what it last said");
});
document.addEventListener("htmx:afterSwap", (event) => event.target.removeAttribute("data-stale"));

for (const input of document.querySelectorAll("input[data-fills]")) {
  input.addEventListener("change", async () => {
    if (input.files.length) document.getElementById(input.dataset.fills).value = (await input.files[0].text()).trim();
  });
}
