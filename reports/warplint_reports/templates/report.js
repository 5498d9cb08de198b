"use strict";
// Adds filters, keys and folding to a page that is complete without them. State lives in the address after `#`:
// either an anchor (#f-..., #s1-20) or filters (#level=error,warning&rule=...&at=f-...).
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = $("#filters"), search = $("#q"), articles = $$("article.finding");
  const rows = new Map($$(".list li[data-for]").map(row => [row.dataset.for, row]));
  const boxes = $$("input[name=level]", form), selects = $$("select", form);
  let current = null;

  const visible = () => articles.filter(article => !article.hidden);

  function apply() {
    const levels = new Set(boxes.filter(box => box.checked).map(box => box.value));
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const article of articles) {
      const data = article.dataset;
      const keep = levels.has(data.level) && selects.every(select => !select.value || data[select.name] === select.value)
        && words.every(word => data.text.includes(word));
      article.hidden = !keep;
      const row = rows.get(article.id);
      if (row) row.hidden = !keep;
      shown += keep;
    }
    const all = articles.length;
    $("#shown").textContent = all === 0 ? "" : shown === all ? `${all} shown` : `${shown} of ${all} shown`;
    $("#no-match").hidden = shown > 0 || all === 0;
  }

  function store() {
    const state = new URLSearchParams();
    const checked = boxes.filter(box => box.checked);
    if (checked.length < boxes.length) state.set("level", checked.map(box => box.value).join(","));
    for (const select of selects) if (select.value) state.set(select.name, select.value);
    if (search.value) state.set("q", search.value);
    if (current) state.set("at", current.id);
    const text = state.toString();
    const filtered = [...state.keys()].some(key => key !== "at");
    history.replaceState(null, "", text ? "#" + (filtered ? text : current.id) : location.pathname + location.search);
  }

  function restore() {
    const hash = location.hash.slice(1);
    if (hash.includes("=")) {
      const state = new URLSearchParams(hash);
      const levels = state.has("level") ? state.get("level").split(",") : null;
      for (const box of boxes) box.checked = !levels || levels.includes(box.value);
      for (const select of selects) {
        const value = state.get(select.name) || "";
        select.value = [...select.options].some(option => option.value === value) ? value : "";
      }
      search.value = state.get("q") || "";
      apply();
      const at = articles.find(article => article.id === state.get("at"));
      if (at) go(at, false);
    } else {
      reveal(hash);
    }
  }

  // An anchor may lead to a finding that is filtered out, a folded line, or into a closed tree.
  function reveal(id) {
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.matches("article.finding")) {
      if (target.hidden) reset();
      select(target);
    }
    for (let up = target; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    if (target.classList.contains("far")) fold(target.closest(".source"), false);
    target.scrollIntoView({ block: target.matches(".l") ? "center" : "start" });
  }

  function select(article) {
    if (current) { current.classList.remove("current"); rows.get(current.id)?.classList.remove("current"); }
    current = article;
    if (!article) return;
    article.classList.add("current");
    const row = rows.get(article.id);
    if (row) { row.classList.add("current"); row.scrollIntoView({ block: "nearest" }); }
  }

  function go(article, remember = true) {
    select(article);
    article.scrollIntoView({ block: "start" });
    article.focus({ preventScroll: true });
    if (remember) store();
  }

  function step(by) {
    const list = visible();
    if (!list.length) return;
    const at = list.indexOf(current);
    go(list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by))]);
  }

  function reset() {
    for (const box of boxes) box.checked = true;
    for (const select of selects) select.value = "";
    search.value = "";
    apply();
    store();
  }

  function fold(source, on) {
    source.classList.toggle("fold-on", on);
    $(".fold input", source).checked = on;
    for (const old of $$(".gap.made", source)) old.remove();
    if (!on) return;
    let run = [];
    const close = () => {
      if (run.length) {
        const gap = document.createElement("div");
        gap.className = "gap made";
        gap.textContent = `${run.length} line${run.length > 1 ? "s" : ""}`;
        run[0].before(gap);
      }
      run = [];
    };
    for (const line of $$(".code > *", source)) line.classList.contains("far") ? run.push(line) : close();
    close();
  }

  function save() {
    const text = JSON.stringify(JSON.parse($("#data").textContent), null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "warplint-report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  form.hidden = articles.length === 0;
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", () => { apply(); store(); });
  $("#reset")?.addEventListener("click", reset);
  for (const [id, run] of [["#save", save], ["#keys", () => $("#help").showModal()]]) {
    $(id).hidden = false;
    $(id).addEventListener("click", run);
  }
  for (const source of $$(".source")) {
    const box = $(".fold input", source);
    if (!$(".far", source) || !$(".l.m", source)) continue;
    $(".fold", source).hidden = false;
    box.addEventListener("change", () => fold(source, box.checked));
    if (source.dataset.fold === "1") fold(source, true);
  }
  $(".list").addEventListener("click", event => {
    const row = event.target.closest("li[data-for]");
    const article = row && document.getElementById(row.dataset.for);
    if (article) { event.preventDefault(); go(article); }
  });
  addEventListener("hashchange", restore);
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const source = current && document.getElementById(`s${current.dataset.file}`);
    const actions = {
      j: () => step(1),
      k: () => step(-1),
      o: () => { const link = current && $("a.place", current); if (link) { location.hash = link.hash; reveal(link.hash.slice(1)); } },
      u: () => { if (current) go(current); },
      f: () => { for (const one of source ? [source] : $$(".source")) if (!$(".fold", one).hidden) fold(one, !one.classList.contains("fold-on")); },
      "/": () => { search.focus(); search.select(); },
      "?": () => $("#help").showModal(),
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  apply();
  restore();
})();
