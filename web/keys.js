// Keys that lead somewhere; none changes anything. `g` and a letter: a page. `j` and `k`: the next and the last row. `/`: the search.
const typing = (target) => target.closest("input, select, textarea, [contenteditable]");
let went = 0;

const row = (step) => {
  const links = [...document.querySelectorAll("tr[data-row] a")];
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step;
  links[next]?.focus();
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (event.key === "g") {
    went = event.timeStamp;
    return;
  }
  if (went && event.timeStamp - went < 1500) {
    went = 0;
    document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    const field = document.querySelector('form[role="search"] input');
    if (field) field.focus();
    else document.querySelector('nav a[data-key="c"]')?.click();
  }
  if (event.key === "j") row(1);
  if (event.key === "k") row(-1);
});
