// What pages need beside htmx: pausing updates, and reading a token out of a file. Nothing is sent from here.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const pause = document.getElementById("pause-updates");
  const opened = event.target.querySelector("details[open]");
  // An open detail is being read: it must not be closed under the reader.
  if ((pause && pause.checked) || opened) event.preventDefault();
});

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
