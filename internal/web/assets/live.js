// Keeps a page up to date, and gives it keys. Everything works without this file, just not live.
"use strict";
(() => {
  const body = document.body;
  document.documentElement.classList.add("live");

  // Times. The server sends moments; how long ago they are is counted here.
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const span = (seconds) => {
    seconds = Math.max(0, Math.floor(seconds));
    for (let i = 0; i < units.length; i++) {
      const [size, name] = units[i];
      if (seconds >= size || size === 1) {
        const rest = i + 1 < units.length ? Math.floor((seconds % size) / units[i + 1][0]) : 0;
        return Math.floor(seconds / size) + name + (rest && i < 3 ? rest + units[i + 1][1] : "");
      }
    }
  };
  const show = (time, now) => {
    const at = Date.parse(time.dateTime);
    let text;
    if ("clock" in time.dataset) {
      const date = new Date(at);
      text = (now - at > 86400000 ? date.toLocaleDateString() + " " : "") + date.toLocaleTimeString();
    } else {
      text = "until" in time.dataset ? (at > now ? "in " + span((at - now) / 1000) : "now") : span((now - at) / 1000);
    }
    if (time.textContent !== text) {
      time.textContent = text;
      time.title = new Date(at).toLocaleString();
    }
  };
  const times = (root) => {
    const now = Date.now();
    for (const time of root.querySelectorAll("time[data-age], time[data-until], time[data-clock]")) show(time, now);
  };
  times(document);
  const budget = 8; // ms of work before the browser may draw
  let ticking = null;
  const tick = () => { // some of the times, until all have been seen
    const start = performance.now(), now = Date.now();
    while (ticking.length && performance.now() - start < budget) show(ticking.pop(), now);
    if (ticking.length) requestAnimationFrame(tick);
    else ticking = null;
  };
  setInterval(() => {
    if (ticking || document.hidden) return;
    ticking = [...document.querySelectorAll("time[data-age], time[data-until]")];
    requestAnimationFrame(tick);
  }, 1000);

  // Search in rows that are there already.
  const search = document.querySelector("[data-search]");
  const words = () => (search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : []);
  const filter = (row, wanted) => {
    const text = wanted.length ? row.textContent.toLowerCase() : "";
    row.hidden = !wanted.every((word) => text.includes(word));
  };
  if (search) {
    search.addEventListener("input", () => {
      const wanted = words();
      for (const row of document.getElementById(search.dataset.search).children) filter(row, wanted);
    });
  }

  // What is selected, and is shown.
  const all = document.getElementById("all");
  if (all) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll("tr:not([hidden]) input[name=path]")) box.checked = all.checked;
    });
  }

  // Changes, a few at a time so that the page never stops. Each replaces an earlier one of the same part that still waits:
  // a page in a hidden tab is not drawn, so they may wait for a whole night.
  const work = new Map(); // jobs by what they change, in order
  let working = false;
  const run = () => {
    const start = performance.now();
    for (const [what, job] of work) {
      if (performance.now() - start >= budget) break;
      work.delete(what);
      job();
    }
    working = work.size > 0;
    if (working) requestAnimationFrame(run);
  };
  const later = (what, job) => {
    work.delete(what); // to the end
    work.set(what, job);
    if (!working) {
      working = true;
      requestAnimationFrame(run);
    }
  };
  const made = {}; // new children that have no place yet
  const element = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };
  const replace = (id, html) => {
    const now = element(html), old = document.getElementById(id);
    times(now);
    if (search && now.localName === "tr") filter(now, words());
    if (!old) {
      made[id] = now;
      return;
    }
    const box = old.querySelector("input[name=path]"), focus = old.contains(document.activeElement);
    if (box && box.checked) now.querySelector("input[name=path]").checked = true;
    if (focus && document.activeElement.closest("form, textarea, input") && old.querySelector("textarea")) return; // being written
    const inside = focus && [...old.querySelectorAll("a, button, input")].indexOf(document.activeElement);
    old.replaceWith(now);
    if (focus && inside >= 0) now.querySelectorAll("a, button, input")[inside]?.focus();
  };
  const arrange = (id, ids) => {
    const list = document.getElementById(id);
    if (!list) return;
    const keep = new Set(ids);
    for (const child of [...list.children]) if (!keep.has(child.id)) child.remove();
    let at = list.firstElementChild;
    for (const child of ids) {
      if (at && at.id === child) {
        at = at.nextElementSibling;
        continue;
      }
      const it = made[child] || document.getElementById(child);
      delete made[child];
      if (it) list.insertBefore(it, at);
    }
  };
  const most = 5000; // items of a list
  let position = "", arrived = 0;
  const log = document.getElementById("log");
  if (log) position = log.dataset.position;
  const follow = document.getElementById("follow");
  const bottom = () => { if (log && follow.checked) log.scrollTop = log.scrollHeight; };
  bottom();
  const add = (patch, html) => {
    const list = document.getElementById(patch.list), it = element(html);
    if (!list || !it || (it.id && document.getElementById(it.id))) return;
    times(it);
    list.querySelector(".none")?.remove();
    if (patch.first) list.prepend(it);
    else list.append(it);
    while (list.childElementCount > most) (patch.first ? list.lastElementChild : list.firstElementChild).remove();
  };
  const down = document.getElementById("down");
  const tell = (text) => {
    down.hidden = !text;
    down.textContent = text;
  };
  const apply = (patch) => {
    for (const [id, html] of Object.entries(patch.parts || {})) later("part " + id, () => replace(id, html));
    for (const [id, ids] of Object.entries(patch.lists || {})) later("list " + id, () => arrange(id, ids));
    for (const html of patch.items || []) {
      later(++arrived, () => add(patch, html));
      work.delete(arrived - most); // it would leave the list at once
    }
    if (patch.items) later("bottom", bottom);
    if (patch.position) position = patch.position;
    if ("down" in patch) tell(patch.down);
  };

  // The stream. It is opened again when it breaks, from where it was.
  let last = body.dataset.event || "", digest = body.dataset.digest, wait = 500;
  const open = () => {
    const url = body.dataset.live + "&after=" + last + "&position=" + encodeURIComponent(position) +
      (digest ? "&digest=" + digest : "");
    digest = "";
    const source = new EventSource(url);
    let lost = false;
    source.onopen = () => {
      wait = 500;
      lost = false;
      if (down.dataset.lost) tell("");
      delete down.dataset.lost;
      body.dataset.connected = "yes";
    };
    source.onmessage = (message) => {
      if (message.lastEventId) last = message.lastEventId;
      apply(JSON.parse(message.data));
    };
    source.onerror = () => {
      if (lost) return;
      lost = true;
      source.close();
      delete body.dataset.connected;
      if (!unloading) {
        tell("The connection is lost; trying again. If this stays, coppice web may have ended.");
        down.dataset.lost = "yes";
      }
      setTimeout(open, wait * (0.5 + Math.random()));
      wait = Math.min(wait * 2, 15000);
    };
  };
  let unloading = false;
  addEventListener("pagehide", () => { unloading = true; });
  if (body.dataset.live) open();

  // People who do something on a page with what needs them are not notified of it meanwhile.
  if ("needs" in body.dataset) {
    let told = 0;
    const seen = (event) => {
      if (!event.isTrusted || document.hidden || Date.now() - told < 20000) return;
      told = Date.now();
      fetch("/seen", {method: "POST"}).catch(() => {});
    };
    for (const name of ["pointermove", "pointerdown", "keydown", "wheel"]) addEventListener(name, seen, {passive: true});
  }

  // The log.
  const wrap = document.getElementById("wrap");
  if (wrap) wrap.addEventListener("change", () => log.classList.toggle("wrap", wrap.checked));
  if (follow) follow.addEventListener("change", bottom);

  // Keys.
  let go = false;
  const keys = document.getElementById("keys");
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (go) {
      go = false;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) location.assign(link.href);
    } else if (event.key === "g") {
      go = true;
    } else if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) {
        event.preventDefault();
        field.focus();
      }
    } else if (event.key === "?" && keys) {
      keys.showModal();
    }
  });
})();
