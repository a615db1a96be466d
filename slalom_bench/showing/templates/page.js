"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);

  // sorting: a header's button, and on a phone the list above the cards
  const value = (row, column) => row.children[column].dataset.sort;
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en") : x - y;
  };
  const sort = (table, column, ascending) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: value(row, column) }));
    rows.sort((a, b) => {
      if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "") || a.place - b.place;
      return (ascending ? 1 : -1) * compare(a.key, b.key) || a.place - b.place;
    });
    body.append(...rows.map((entry) => entry.row));
    all("thead th", table).forEach((th, i) => {
      th.setAttribute("aria-sort", i !== column ? "none" : ascending ? "ascending" : "descending");
    });
  };
  for (const button of all("button.sort")) {
    button.addEventListener("click", () => {
      const th = button.closest("th");
      const best = button.dataset.better === "lower";
      const now = th.getAttribute("aria-sort");
      const ascending = now === "none" ? best : now !== "ascending";
      sort(button.closest("table"), th.cellIndex, ascending);
    });
  }
  for (const list of all("select[data-sorter]")) {
    list.addEventListener("change", () => {
      const table = list.closest(".board").querySelector("table.quality");
      const column = Number(list.value);
      const button = all("thead button.sort", table)[column];
      sort(table, column, button.dataset.better === "lower");
    });
  }

  // filters: a row, its point in every plot and its command go together
  const form = one("filters");
  if (form) {
    form.hidden = false;
    const boards = all(".board").map((node) => ({
      node,
      words: `${node.dataset.task} ${node.dataset.model} ${node.dataset.protocol} ` +
        all("table.quality thead button", node).map((b) => b.textContent).join(" "),
      rows: all("table.quality tbody tr", node),
      parts: Map.groupBy ? Map.groupBy(all("[data-row]", node), (part) => part.dataset.row) : null,
    }));
    const total = boards.reduce((sum, board) => sum + board.rows.length, 0);
    const apply = () => {
      const want = Object.fromEntries(all("select[data-filter]", form).map((s) => [s.dataset.filter, s.value]));
      const words = one("q").value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const board of boards) {
        const data = board.node.dataset;
        const fits = ["task", "model", "protocol"].every((key) => !want[key] || want[key] === data[key]);
        let here = 0;
        for (const row of board.rows) {
          const text = `${board.words} ${row.dataset.name}`.toLowerCase();
          const family = !want.family || want.family === row.dataset.family;
          const visible = fits && family && words.every((word) => text.includes(word));
          here += visible;
          const own = board.parts?.get(row.dataset.row) ??
            all("[data-row]", board.node).filter((part) => part.dataset.row === row.dataset.row);
          for (const part of own) {
            if (part instanceof SVGElement) part.style.display = visible ? "" : "none";
            else part.hidden = !visible;
          }
        }
        board.node.hidden = !here;
        shown += here;
      }
      for (const group of all("[data-group]")) group.hidden = !all(".board:not([hidden])", group).length;
      one("nothing").hidden = shown > 0 || !total;
      one("count").textContent = shown === total ? `${total} rows` : `${shown} of ${total} rows`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(apply));
    apply();
  }

  // column help: on hover and on focus, gone with Escape
  const tip = one("tip");
  const hide = () => { tip.hidden = true; };
  const show = (button) => {
    tip.textContent = one(button.getAttribute("aria-describedby")).textContent;
    tip.hidden = false;
    const at = button.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(at.left, room))}px`;
    const below = at.bottom + 6;
    const fits = below + tip.offsetHeight < window.innerHeight;
    tip.style.top = `${fits ? below : Math.max(8, at.top - tip.offsetHeight - 6)}px`;
  };
  for (const button of all("button[aria-describedby]")) {
    button.addEventListener("mouseenter", () => show(button));
    button.addEventListener("focus", () => show(button));
    button.addEventListener("mouseleave", hide);
    button.addEventListener("blur", hide);
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", hide, { passive: true });

  // theme: the system's unless chosen; storage may be forbidden for files on disk
  const theme = one("theme");
  const names = ["auto", "light", "dark"];
  const store = { get: () => null, set: () => {} };
  try {
    const real = window.localStorage;
    store.get = () => real.getItem("slalom-bench-theme");
    store.set = (name) => real.setItem("slalom-bench-theme", name);
    store.get();
  } catch { store.get = () => null; store.set = () => {}; }
  let chosen = names.includes(store.get()) ? store.get() : "auto";
  const paint = () => {
    theme.textContent = `Theme: ${chosen}`;
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    store.set(chosen);
    paint();
  });
  paint();

  // on paper every fold is open
  window.addEventListener("beforeprint", () => all("details").forEach((fold) => { fold.open = true; }));
})();
