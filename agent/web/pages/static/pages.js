// Makes the pages better: the reader's own zone, live parts, zoom. Without it all facts are there.
(() => {
  "use strict";
  const two = (n) => String(n).padStart(2, "0");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
  const clock = (at) => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const date = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

  const ago = (seconds) => {
    for (const [unit, length, from] of [["d", 86400, 2], ["h", 3600, 2], ["min", 60, 1]])
      if (seconds >= from * length) return `${Math.floor(seconds / length)} ${unit} ago`;
    return `${Math.floor(seconds)} s ago`;
  };

  // How long ago something was is by the agent's clock, not by the reader's.
  let skew = 0;
  const setSkew = (page) => {
    const stamp = page.querySelector("[data-stamp] time");
    if (stamp) skew = Date.parse(stamp.dateTime) - Date.now();
  };

  const showTimes = (root) => {
    for (const time of root.querySelectorAll("time[data-form]")) {
      const at = new Date(time.dateTime);
      const form = time.dataset.form;
      const text = form === "ago" ? ago(Math.max(0, (Date.now() + skew - at) / 1000))
        : form === "date" ? `${date(at)} ${clock(at)}`
        : form === "instant" ? `${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}` : clock(at);
      if (time.textContent !== text) time.textContent = text;
    }
    for (const label of root.querySelectorAll("[data-clock]")) {
      const at = new Date(1000 * Number(label.dataset.clock));
      label.textContent = label.dataset.short ? clock(at).slice(0, 5) : clock(at);
    }
    for (const name of root.querySelectorAll("[data-zone]")) name.textContent = zone;
  };

  // Zoom: the drawing is in shares of its width, so a wider canvas is a closer look.
  let zoom = 1;
  const plot = () => document.getElementById("plot");
  const setZoom = (wanted, centre) => {
    const box = plot();
    if (!box) return;
    const before = box.scrollWidth;
    const at = centre ?? box.clientWidth / 2;
    const share = (box.scrollLeft + at) / before;
    zoom = Math.min(64, Math.max(1, wanted));
    box.firstElementChild.style.setProperty("--zoom", zoom);
    box.scrollLeft = share * box.scrollWidth - at;
  };
  const openAtNow = () => { const box = plot(); if (box) box.scrollLeft = box.scrollWidth; };
  const keys = { "+": () => setZoom(zoom * 2), "=": () => setZoom(zoom * 2), "-": () => setZoom(zoom / 2),
    "0": () => setZoom(1), End: openAtNow, Home: () => { plot().scrollLeft = 0; } };
  const watchPlot = () => {
    const box = plot();
    if (!box || box.dataset.watched) return;
    box.dataset.watched = "yes";
    box.firstElementChild.style.setProperty("--zoom", zoom);
    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setZoom(zoom * Math.exp(-event.deltaY / 200), event.clientX - box.getBoundingClientRect().left);
    }, { passive: false });
    let from = null, dragged = false;
    box.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0 || zoom === 1) return;
      from = { x: event.clientX, left: box.scrollLeft };
      dragged = false;
    });
    box.addEventListener("pointermove", (event) => {
      if (!from) return;
      const by = event.clientX - from.x;
      if (!dragged && Math.abs(by) < 4) return; // a click that shakes
      if (!dragged) box.setPointerCapture(event.pointerId);
      dragged = true;
      box.scrollLeft = from.left - by;
    });
    for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => { from = null; });
    box.addEventListener("dragstart", (event) => event.preventDefault());
    box.addEventListener("click", (event) => { if (dragged) event.preventDefault(); dragged = false; }, true);
    let pinch = 0;
    const spread = (touches) => Math.hypot(touches[0].clientX - touches[1].clientX, touches[0].clientY - touches[1].clientY);
    box.addEventListener("touchmove", (event) => {
      if (event.touches.length !== 2) { pinch = 0; return; }
      event.preventDefault();
      const now = spread(event.touches);
      const middle = (event.touches[0].clientX + event.touches[1].clientX) / 2 - box.getBoundingClientRect().left;
      if (pinch) setZoom(zoom * now / pinch, middle);
      pinch = now;
    }, { passive: false });
    box.addEventListener("touchend", () => { pinch = 0; });
  };
  for (const place of document.querySelectorAll("[data-zoom]")) {
    place.hidden = false;
    for (const [text, label, act] of [["−", "Zoom out", () => setZoom(zoom / 2)], ["+", "Zoom in", () => setZoom(zoom * 2)],
      ["whole window", "Show the whole window", () => setZoom(1)]]) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: label });
      if (text.length === 1) button.setAttribute("aria-label", label);
      button.addEventListener("click", act);
      place.append(button);
    }
  }

  // Filters apply by themselves.
  document.documentElement.classList.add("auto");
  for (const form of document.querySelectorAll("form[data-auto]")) {
    let timer;
    const apply = () => {
      const given = [...new FormData(form)].filter(([name, value]) => value && !(name === "sort" && value === "unstable"));
      const url = new URL(form.action);
      url.search = new URLSearchParams(given);
      history.replaceState(null, "", url);
      refresh();
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
    form.addEventListener("change", apply);
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 200); });
  }

  // Live: a part whose text changed is replaced; focus, zoom and scroll stay.
  let last = new Map();
  const remember = (page) => new Map([...page.querySelectorAll("[data-part]")].map((part) => [part.id, part.innerHTML]));
  const replacePart = (old, part) => {
    const box = old.querySelector(".plot");
    const kept = box && { left: box.scrollLeft, atEnd: box.scrollLeft + box.clientWidth >= box.scrollWidth - 4 };
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const again = focused && (focused.id ? `#${focused.id}` : focused.getAttribute("href") && `a[href="${CSS.escape(focused.getAttribute("href"))}"]`);
    const open = [...old.querySelectorAll("details")].map((each) => each.open);
    old.innerHTML = part.innerHTML;
    old.querySelectorAll("details").forEach((each, n) => { each.open = open[n] ?? false; });
    showTimes(old);
    watchPlot();
    const now = old.querySelector(".plot");
    if (kept && now) now.scrollLeft = kept.atEnd ? now.scrollWidth : kept.left;
    if (again) old.querySelector(again)?.focus({ preventScroll: true });
  };
  let busy = false, waiting = false;
  const refresh = async () => {
    if (busy) { waiting = true; return; }
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      setSkew(page);
      const fresh = remember(page);
      for (const part of page.querySelectorAll("[data-part]")) {
        const old = document.getElementById(part.id);
        if (old && last.get(part.id) !== fresh.get(part.id)) replacePart(old, part);
      }
      last = fresh;
      document.title = page.title;
      const stamp = page.querySelector("[data-stamp]");
      if (stamp) { document.querySelector("[data-stamp]").innerHTML = stamp.innerHTML; showTimes(document.querySelector(".bar")); }
    } catch { /* the next event tries again */ } finally {
      busy = false;
      if (waiting) { waiting = false; refresh(); }
    }
  };

  last = remember(document);
  setSkew(document);
  showTimes(document);
  watchPlot();
  openAtNow();
  setInterval(() => showTimes(document), 1000);
  if (document.body.dataset.live) {
    const events = new EventSource(document.body.dataset.live);
    events.addEventListener("changed", () => { if (!document.hidden) refresh(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  }
})();
