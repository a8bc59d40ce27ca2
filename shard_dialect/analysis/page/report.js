"use strict";
const panel = document.getElementById("panel");

function show(element) {
  const source = document.getElementById(element.dataset.shows);
  panel.replaceChildren(source.content.cloneNode(true));
  if (element.dataset.title) {
    const title = document.createElement("h2");
    title.textContent = element.dataset.title;
    panel.prepend(title);
  }
  for (const each of document.querySelectorAll(".shown")) each.classList.remove("shown");
  const name = CSS.escape(element.dataset.shows);
  const same = element.dataset.title ? [element] : document.querySelectorAll(`[data-shows="${name}"]`);
  for (const each of same) each.classList.add("shown");
}

function open(element) {
  const source = document.getElementById(element.dataset.opens);
  document.getElementById("graph").replaceChildren(source.content.cloneNode(true));
}

function act(element) {
  if (element.dataset.opens) open(element);
  else show(element);
}

document.addEventListener("click", (event) => {
  const element = event.target.closest("[data-shows], [data-opens]");
  if (element) act(element);
});
document.addEventListener("keydown", (event) => {
  const element = event.target.closest("[data-shows], [data-opens]");
  if (element && element.tagName !== "BUTTON" && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    act(element);
  }
});
const filter = document.getElementById("filter");
if (filter) {
  filter.addEventListener("input", () => {
    for (const each of document.querySelectorAll(".tensors li")) {
      each.hidden = !each.textContent.includes(filter.value);
    }
  });
}
