// Keys, and what forms that write must send. Everything can be read without this file.
"use strict";
(() => {
  const typing = (element) => element.closest("input, select, textarea, [contenteditable]");
  const rows = () => [...document.querySelectorAll(".rows tbody tr")].filter((row) => row.querySelector("a.go"));

  const step = (by) => {
    const link = document.querySelector(by > 0 ? "main [rel=next]" : "main [rel=prev]");
    const listed = rows();
    if (!listed.length || (link && link.closest(".crumbs"))) {
      if (link) link.click();
      return;
    }
    const at = listed.findIndex((row) => row.classList.contains("at"));
    const next = listed[Math.max(0, Math.min(listed.length - 1, at < 0 ? (by > 0 ? 0 : -1) : at + by))];
    if (!next) return;
    if (at >= 0) listed[at].classList.remove("at");
    next.classList.add("at");
    next.querySelector("a.go").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    u: () => document.querySelector("main [rel=up]")?.click(),
    "/": () => document.querySelector("main input[type=search]")?.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // What writes must say that it comes from a page of this server.
  document.addEventListener("htmx:config:request", (event) => {
    const request = event.detail.ctx.request;
    if (request.method === "POST") request.headers["X-KB-Write"] = document.querySelector("meta[name=kb-write]")?.content || "";
  });

  // Trees: drag to move, wheel with Ctrl or the buttons to zoom, "fit" to see all.
  const places = new Map(); // by address: what was looked at before the drawing was renewed
  const hold = (pan) => {
    const svg = pan.querySelector("svg.tree");
    if (!svg || pan.classList.contains("grip")) return;
    const width = Number(svg.getAttribute("width"));
    const height = Number(svg.getAttribute("height"));
    let scale = 1;
    const zoom = (to, x = pan.clientWidth / 2, y = pan.clientHeight / 2) => {
      const next = Math.min(3, Math.max(0.02, to));
      const left = ((pan.scrollLeft + x) / scale) * next - x;
      const top = ((pan.scrollTop + y) / scale) * next - y;
      scale = next;
      svg.setAttribute("width", String(width * scale));
      svg.setAttribute("height", String(height * scale));
      pan.scrollTo(left, top);
      note();
    };
    const note = () => places.set(location.pathname, [scale, pan.scrollLeft, pan.scrollTop]);
    const fit = () => zoom(Math.min(1, (pan.clientWidth - 4) / width, (pan.clientHeight - 4) / height));
    pan.classList.add("grip");
    pan.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = pan.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let from = null;
    let moved = false;
    pan.addEventListener("pointerdown", (event) => {
      if (event.button === 0) from = [event.clientX, event.clientY, pan.scrollLeft, pan.scrollTop];
      moved = false;
    });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y, left, top] = from;
      if (Math.hypot(event.clientX - x, event.clientY - y) > 4) moved = true;
      if (moved) {
        pan.classList.add("held");
        pan.scrollTo(left - (event.clientX - x), top - (event.clientY - y));
      }
    });
    window.addEventListener("pointerup", () => {
      from = null;
      pan.classList.remove("held");
      note();
    });
    pan.addEventListener("dragstart", (event) => event.preventDefault());
    pan.addEventListener("click", (event) => moved && event.preventDefault(), true);
    pan.addEventListener("scroll", note, { passive: true });
    const bar = document.createElement("p");
    bar.className = "zoom";
    for (const [told, act] of [["+", () => zoom(scale * 1.4)], ["\u2212", () => zoom(scale / 1.4)], ["fit", fit], ["1:1", () => zoom(1)]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = told;
      button.setAttribute("aria-label", { "+": "Zoom in", "\u2212": "Zoom out", fit: "Show the whole tree", "1:1": "Natural size" }[told]);
      button.addEventListener("click", act);
      bar.append(button);
    }
    pan.before(bar);
    const before = places.get(location.pathname);
    if (before) {
      zoom(before[0]);
      pan.scrollTo(before[1], before[2]);
    }
  };
  const start = () => document.querySelectorAll(".pan").forEach(hold);
  start();
  document.addEventListener("htmx:after:swap", start);
})();
