// Copies an id or a command whole, exactly as it is shown.
for (const shown of document.querySelectorAll("code.id")) {
  if (!navigator.clipboard || shown.closest("a")) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.setAttribute("aria-label", `copy ${shown.textContent}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = "not copied";
    }
  });
  shown.after(" ", button);
}
