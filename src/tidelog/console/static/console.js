// Keeps the numbers of a page fresh while it is looked at. Everything works without it.
"use strict";

const PAUSE_MS = 5000;

// What someone reads, marks or types in is left alone.
function isInUse(main) {
  const active = document.activeElement;
  const selection = document.getSelection();
  return (
    document.hidden ||
    (active && active !== main && main.contains(active)) ||
    (selection && !selection.isCollapsed) ||
    main.querySelector("details[open]") !== null
  );
}

function scrolledOf(main) {
  return [...main.querySelectorAll("[role=region]")].map((one) => one.scrollLeft);
}

async function freshen(main) {
  const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
  if (!answer.ok) {
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("main");
  if (fresh === null || isInUse(main)) {
    return;
  }
  const scrolled = scrolledOf(main);
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("[role=region]").forEach((one, number) => {
    one.scrollLeft = scrolled[number] || 0;
  });
}

const main = document.querySelector("main[data-live]");
if (main !== null) {
  setInterval(() => {
    if (!isInUse(main)) {
      freshen(main).catch(() => undefined); // the console has ended: what is shown stays
    }
  }, PAUSE_MS);
}
