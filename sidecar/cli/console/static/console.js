// What pages need beside htmx: pausing updates, following a turn, and reading a token out of a file.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const pause = document.getElementById("pause-updates");
  if (pause && pause.checked) event.preventDefault();
});

// An open detail is being read: what replaces it must be open, too.
let read = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  read = Array.from(event.target.querySelectorAll("details[open]"), (each) => each.id);
});
document.addEventListener("htmx:afterSwap", () => {
  for (const id of read) document.getElementById(id)?.setAttribute("open", "");
});

// A turn that runs: the console tells when something has happened in it, and htmx asks for the part that changed.
// Browsers keep six connections to a console, over all tabs, so a hidden tab gives its own back.
for (const live of document.querySelectorAll("[data-changes]")) {
  // Twice: the sidecar tells of an event while it is still being written, and the page reads what is written.
  let later = 0;
  const renew = () => {
    htmx.trigger(live, "turn-changed");
    clearTimeout(later);
    later = setTimeout(() => htmx.trigger(live, "turn-changed"), 300);
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
