// What a person could do without it: keys for links, short links from forms, and a button that stops a search.
// It is loaded while a page still grows, so it listens to the document and looks elements up when they are needed.
"use strict";

const RELATIONS = { n: "next", p: "prev", u: "up" };

document.documentElement.classList.add("scripted");

document.addEventListener("keydown", (event) => {
  const target = event.target;
  const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
    return;
  }
  const relation = RELATIONS[event.key];
  const links = relation ? document.querySelectorAll(`a[rel="${relation}"]`) : [];
  if (links.length) links[links.length - 1].click();
});

// The server stops a search when its page is not read any more.
document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || !event.target.matches("[data-stop]")) return;
  window.stop();
  event.target.textContent = "Stopped";
  event.target.disabled = true;
});

// A form sends no empty fields and no defaults.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get") return;
  for (const field of form.elements) {
    const isDefault = field instanceof HTMLSelectElement && field.value === field.dataset.default;
    if (field.name && (field.value === "" || isDefault)) field.disabled = true;
  }
});

// A page that the browser kept, after "back": its fields take text again.
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form.bar [disabled]")) field.disabled = false;
});
