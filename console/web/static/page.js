// Settings for the terminal's script, and the parts of the page that it does not handle.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const terminal = document.getElementById("terminal");
  const asked = Number(new URLSearchParams(location.search).get("fontsize"));
  terminal.dataset.fontSize = String(asked >= 6 && asked <= 72 ? asked : 15);
  terminal.dataset.sessionWebsocketUrl = `ws://${location.host}/ws`;

  const again = document.getElementById("again");
  again.addEventListener("click", () => location.reload());

  new MutationObserver(() => {
    const now = document.body.classList;
    if (now.contains("-closed")) {
      again.focus();
    } else if (now.contains("-loaded")) {
      // Only now is the console connected and can be sent the focus.
      const keys = terminal.querySelector(".xterm-helper-textarea");
      keys.blur();
      keys.focus();
    }
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
});
