"use strict";
(() => {
  const holder = document.getElementById("data");
  const data = holder ? JSON.parse(holder.textContent) : {};

  // --- Numbers -------------------------------------------------------------------------------------------------

  const bytes = (text) => Uint8Array.from(atob(text.slice(text.indexOf(",") + 1)), (c) => c.charCodeAt(0)).buffer;
  const short = (v) => {
    if (v === null || v === undefined || !Number.isFinite(v)) return "–";
    const size = Math.abs(v);
    if (v === 0) return "0";
    return size >= 1e-3 && size < 1e5 ? String(Number(v.toPrecision(4))) : v.toExponential(2);
  };
  const restore = ([low, high, codes]) => {
    const raw = new Uint16Array(bytes(codes)), scale = (high - low) / 65534, out = new Float64Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw[i] === 65535 ? 0 / 0 : low + scale * raw[i];
    return out;
  };
  const kept = new Map();
  const remember = (key, make) => {
    if (!kept.has(key)) kept.set(key, make());
    return kept.get(key);
  };

  // --- Fields --------------------------------------------------------------------------------------------------

  const mesh = (number) => remember(`mesh ${number}`, () => {
    const stored = data.meshes[number], wide = stored.wide ? Uint32Array : Uint16Array;
    return { x: new Float32Array(bytes(stored.x)), cells: stored.cells ? new wide(bytes(stored.cells)) : null };
  });
  const values = (view, what, frame) => {
    const stored = data.values[view.values];
    const part = (name) => remember(`${name} ${view.values} ${frame}`, () => restore(stored[name][frame]));
    if (what === "prediction") return part("prediction");
    const error = part("error");
    if (what === "error") return error.map(Math.abs);
    return part("prediction").map((p, i) => p - error[i]);
  };
  const colours = (name) => remember(`colours ${name}`, () => new Uint8Array(bytes(data.colours[name])));
  const ink = () => getComputedStyle(document.body).getPropertyValue("--grey").trim();

  // Which triangle is under each pixel, and where in it: worked out once for a size, used by every frame.
  const raster = (view, width, height) => {
    const { x, cells } = mesh(view.mesh), [[left, bottom], [right, top]] = view.frame;
    const owner = new Int32Array(width * height).fill(-1), weights = new Float32Array(2 * width * height);
    const sx = width / (right - left), sy = height / (top - bottom);
    for (let k = 0; k < cells.length; k += 3) {
      const [a, b, c] = [cells[k], cells[k + 1], cells[k + 2]];
      const ax = (x[2 * a] - left) * sx, ay = (top - x[2 * a + 1]) * sy;
      const bx = (x[2 * b] - left) * sx, by = (top - x[2 * b + 1]) * sy;
      const cx = (x[2 * c] - left) * sx, cy = (top - x[2 * c + 1]) * sy;
      const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
      if (area === 0) continue;
      const x0 = Math.max(0, Math.floor(Math.min(ax, bx, cx))), x1 = Math.min(width - 1, Math.ceil(Math.max(ax, bx, cx)));
      const y0 = Math.max(0, Math.floor(Math.min(ay, by, cy))), y1 = Math.min(height - 1, Math.ceil(Math.max(ay, by, cy)));
      for (let j = y0; j <= y1; j++) {
        for (let i = x0; i <= x1; i++) {
          const px = i + 0.5, py = j + 0.5;
          const u = ((px - ax) * (cy - ay) - (cx - ax) * (py - ay)) / area;
          const v = ((bx - ax) * (py - ay) - (px - ax) * (by - ay)) / area;
          if (u < -1e-6 || v < -1e-6 || u + v > 1 + 1e-6) continue;
          const at = j * width + i;
          owner[at] = k;
          weights[2 * at] = u;
          weights[2 * at + 1] = v;
        }
      }
    }
    return { owner, weights, width, height };
  };
  const inside = (view, pixels, field, at) => {
    const k = pixels.owner[at];
    if (k < 0) return null;
    const { cells } = mesh(view.mesh), u = pixels.weights[2 * at], v = pixels.weights[2 * at + 1];
    return (1 - u - v) * field[cells[k]] + u * field[cells[k + 1]] + v * field[cells[k + 2]];
  };

  const niceSteps = (low, high, count) => {
    const raw = (high - low) / count, base = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= raw), found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) found.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    return found;
  };

  class Panel {
    constructor(view, panel, box) {
      this.view = view;
      this.panel = panel;
      this.frame = 0;
      box.innerHTML = `<figcaption></figcaption><canvas role="img"></canvas>
        <div class="bar"><i></i><span class="low"></span><span class="beyond"></span><span class="high"></span></div>`;
      box.querySelector("figcaption").textContent = panel.label;
      this.canvas = box.querySelector("canvas");
      this.canvas.setAttribute("aria-label", panel.label);
      this.bar = box.querySelector(".bar");
      if (view.kind === "line" || view.kind === "scatter") this.bar.hidden = true;
      const table = colours(panel.colours), stops = [];
      for (let i = 0; i <= 16; i++) {
        const k = 3 * Math.min(255, 16 * i);
        stops.push(`rgb(${table[k]},${table[k + 1]},${table[k + 2]})`);
      }
      this.bar.querySelector("i").style.background = `linear-gradient(to right, ${stops.join(",")})`;
      this.bar.querySelector(".low").textContent = short(panel.limits[0]);
      this.bar.querySelector(".high").textContent = short(panel.limits[1]);
      this.bar.querySelector(".beyond").textContent = panel.beyond;
    }

    place() {
      const [[left, bottom], [right, top]] = this.view.frame, flat = this.view.kind === "mesh" || this.view.kind === "points";
      const wide = this.canvas.clientWidth, sharp = Math.min(3, Math.max(2, window.devicePixelRatio || 1));
      this.margin = flat ? { left: 34, bottom: 18, top: 4, right: 6 } : { left: 52, bottom: 20, top: 8, right: 8 };
      const inner = Math.max(40, wide - this.margin.left - this.margin.right);
      const ratio = flat ? (top - bottom) / (right - left) : 0.7;
      const high = Math.min(inner * ratio, 620);
      this.inner = flat ? Math.min(inner, high / ratio) : inner;
      this.tall = high;
      this.margin.left += flat ? (inner - this.inner) / 2 : 0;
      this.sharp = sharp;
      this.canvas.style.height = `${high + this.margin.top + this.margin.bottom}px`;
      this.canvas.width = Math.round(wide * sharp);
      this.canvas.height = Math.round((high + this.margin.top + this.margin.bottom) * sharp);
      this.pixels = null;
      if (this.view.kind === "mesh") {
        const w = Math.round(this.inner * sharp), h = Math.round(high * sharp);
        this.pixels = remember(`raster ${this.view.mesh} ${this.view.frame} ${w} ${h}`, () => raster(this.view, w, h));
      }
    }

    colour(v) {
      const [low, high] = this.panel.limits;
      return 3 * Math.max(0, Math.min(255, Math.floor(256 * (v - low) / (high - low))));
    }

    draw(frame) {
      this.frame = frame;
      const field = values(this.view, this.panel.what, frame), pen = this.canvas.getContext("2d"), table = colours(this.panel.colours);
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
      if (this.pixels) {
        const { width, height } = this.pixels, image = pen.createImageData(width, height), out = image.data;
        const { owner, weights } = this.pixels, { cells } = mesh(this.view.mesh), words = new Uint32Array(out.buffer);
        const [low, high] = this.panel.limits, scale = 256 / (high - low), packed = new Uint32Array(256);
        for (let i = 0; i < 256; i++) packed[i] = (255 << 24) | (table[3 * i + 2] << 16) | (table[3 * i + 1] << 8) | table[3 * i];
        for (let at = 0; at < owner.length; at++) {
          const k = owner[at];
          if (k < 0) continue;
          const u = weights[2 * at], w = weights[2 * at + 1];
          const v = ((1 - u - w) * field[cells[k]] + u * field[cells[k + 1]] + w * field[cells[k + 2]] - low) * scale;
          if (v === v) words[at] = packed[v < 0 ? 0 : v > 255 ? 255 : v | 0];
        }
        pen.putImageData(image, Math.round(this.margin.left * this.sharp), Math.round(this.margin.top * this.sharp));
      }
      pen.scale(this.sharp, this.sharp);
      this.axes(pen);
      if (this.pixels) return;
      const { x } = mesh(this.view.mesh), dots = this.view.kind !== "line";
      const size = this.view.kind === "points" ? Math.max(1.2, Math.min(5, 0.45 * Math.sqrt(this.inner * this.tall / field.length))) : 1.6;
      if (!dots) pen.beginPath();
      pen.strokeStyle = pen.fillStyle = this.panel.what === "error" ? "#d55e00" : "#0072b2";
      pen.lineWidth = 1.8;
      for (let i = 0; i < field.length; i++) {
        if (!Number.isFinite(field[i])) continue;
        const [px, py] = this.spot(x[2 * i], this.view.kind === "points" ? x[2 * i + 1] : field[i]);
        if (!dots) pen.lineTo(px, py);
        if (this.view.kind === "points") {
          const k = this.colour(field[i]);
          pen.fillStyle = `rgb(${table[k]},${table[k + 1]},${table[k + 2]})`;
        }
        if (dots) {
          pen.beginPath();
          pen.arc(px, py, size, 0, 7);
          pen.fill();
        }
      }
      if (!dots) pen.stroke();
    }

    range() {
      const [[left, bottom], [right, top]] = this.view.frame;
      if (this.view.kind === "mesh" || this.view.kind === "points") return [left, right, bottom, top];
      const [low, high] = this.panel.limits, pad = 0.05 * (high - low);
      return [left, right, low - pad, high + pad];
    }

    spot(x, y) {
      const [left, right, bottom, top] = this.range();
      return [this.margin.left + this.inner * (x - left) / (right - left), this.margin.top + this.tall * (top - y) / (top - bottom)];
    }

    axes(pen) {
      const [left, right, bottom, top] = this.range(), lines = this.view.kind === "line" || this.view.kind === "scatter";
      pen.fillStyle = ink();
      pen.strokeStyle = ink();
      pen.lineWidth = 0.5;
      pen.font = "10px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "top";
      for (const v of niceSteps(left, right, 4)) pen.fillText(short(v), this.spot(v, bottom)[0], this.margin.top + this.tall + 5);
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      for (const v of niceSteps(bottom, top, 5)) {
        const y = this.spot(left, v)[1];
        pen.fillText(short(v), this.margin.left - 5, y);
        if (!lines) continue;
        pen.globalAlpha = 0.4;
        pen.beginPath();
        pen.moveTo(this.margin.left, y);
        pen.lineTo(this.margin.left + this.inner, y);
        pen.stroke();
        pen.globalAlpha = 1;
      }
    }

    // What is under the pointer: [x, y, value], or nothing.
    under(px, py) {
      const [left, right, bottom, top] = this.range();
      const x = left + (px - this.margin.left) / this.inner * (right - left), y = top - (py - this.margin.top) / this.tall * (top - bottom);
      if (!(x >= left && x <= right && y >= bottom && y <= top)) return null;
      const field = values(this.view, this.panel.what, this.frame);
      if (this.pixels) {
        const i = Math.floor((px - this.margin.left) * this.sharp), j = Math.floor((py - this.margin.top) * this.sharp);
        const v = inside(this.view, this.pixels, field, Math.min(j, this.pixels.height - 1) * this.pixels.width + Math.min(i, this.pixels.width - 1));
        return v === null ? null : [x, y, v];
      }
      const points = mesh(this.view.mesh).x, flat = this.view.kind === "points";
      let best = -1, least = Infinity;
      for (let i = 0; i < field.length; i++) {
        const d = (points[2 * i] - x) ** 2 + (flat ? (points[2 * i + 1] - y) ** 2 : 0);
        if (d < least) [best, least] = [i, d];
      }
      return best < 0 ? null : [points[2 * best], flat ? points[2 * best + 1] : null, field[best]];
    }
  }

  const views = [];
  for (const box of document.querySelectorAll(".view[data-view]")) {
    const view = data.views[box.dataset.view], panels = [];
    for (const panel of view.panels) {
      const figure = document.createElement("figure");
      box.querySelector(".panels").append(figure);
      panels.push(new Panel(view, panel, figure));
    }
    const words = box.querySelector(".under"), rest = words.textContent;
    panels.forEach((panel) => {
      panel.canvas.addEventListener("pointermove", (event) => {
        const spot = panel.under(event.offsetX, event.offsetY);
        if (!spot) { words.textContent = rest; return; }
        const said = panels.map((other) => {
          const there = other === panel ? spot : other.under(event.offsetX, view.kind === "line" || view.kind === "scatter" ? other.margin.top + 1 : event.offsetY);
          return there ? `${other.panel.label} ${short(there[2])}` : "";
        });
        words.textContent = `at ${spot[1] === null ? short(spot[0]) : `(${short(spot[0])}, ${short(spot[1])})`}: ${said.filter(Boolean).join(", ")}`;
      });
      panel.canvas.addEventListener("pointerleave", () => { words.textContent = rest; });
    });
    views.push(...panels);
  }

  // --- Surfaces ------------------------------------------------------------------------------------------------

  const solid = data.solids && data.solids.fields ? data.solids : null;
  const tetrahedra = () => remember("tetrahedra", () => ({
    x: new Float32Array(bytes(solid.x)), cells: new Uint16Array(bytes(solid.cells)), skin: new Uint16Array(bytes(solid.skin)) }));

  const apart = (x, a, b) => [0, 1, 2].map((i) => x[3 * b + i] - x[3 * a + i]);
  const cross = (u, v) => [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];

  // Where a field at the nodes of tetrahedra has a value: triangles, nine numbers each, with the slope of the field.
  const surface = (field, level) => {
    const { x, cells } = tetrahedra(), out = [], slopes = [];
    const cut = (a, b) => {
      const s = (level - field[a]) / (field[b] - field[a]);
      return [0, 1, 2].map((i) => x[3 * a + i] + s * (x[3 * b + i] - x[3 * a + i]));
    };
    for (let k = 0; k < cells.length; k += 4) {
      const above = [], below = [];
      for (let i = 0; i < 4; i++) (field[cells[k + i]] > level ? above : below).push(cells[k + i]);
      if (!above.length || !below.length || [...above, ...below].some((i) => field[i] !== field[i])) continue;
      const [o, ...others] = cells.subarray(k, k + 4), [u, v, w] = others.map((other) => apart(x, o, other));
      const rise = others.map((other) => field[other] - field[o]), parts = [cross(v, w), cross(w, u), cross(u, v)];
      const slope = [0, 1, 2].map((i) => rise[0] * parts[0][i] + rise[1] * parts[1][i] + rise[2] * parts[2][i]);
      slopes.push(slope);
      if (above.length === 2) {
        slopes.push(slope);
        const [a, b] = above, [c, d] = below, [p, q, r, s] = [cut(a, c), cut(a, d), cut(b, d), cut(b, c)];
        out.push(...p, ...q, ...r, ...p, ...r, ...s);
      } else {
        const [one, three] = above.length === 1 ? [above[0], below] : [below[0], above];
        for (const other of three) out.push(...cut(one, other));
      }
    }
    return { corners: out, slopes };
  };
  const areaOf = ({ corners }) => {
    let sum = 0;
    for (let k = 0; k < corners.length; k += 9) sum += Math.hypot(...cross(apart(corners, k / 3, k / 3 + 1), apart(corners, k / 3, k / 3 + 2))) / 2;
    return sum;
  };

  class Solid {
    constructor(box) {
      this.field = solid.fields[box.dataset.solid];
      this.canvas = box.querySelector("canvas");
      this.slider = box.parentElement.querySelector("input");
      [this.yaw, this.pitch, this.frame] = [0.7, 0.45, 0];
      this.slider.addEventListener("input", () => this.draw(this.frame));
      let [left, top] = [0, 0];
      this.canvas.addEventListener("pointerdown", (event) => {
        [left, top] = [event.clientX, event.clientY];
        this.canvas.setPointerCapture(event.pointerId);
      });
      this.canvas.addEventListener("pointermove", (event) => {
        if (!event.buttons) return;
        this.turn(0.01 * (left - event.clientX), 0.01 * (event.clientY - top));
        [left, top] = [event.clientX, event.clientY];
      });
      this.canvas.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
        if (by) { event.preventDefault(); this.turn(...by); }
      });
    }

    turn(yaw, pitch) {
      this.yaw += yaw;
      this.pitch = Math.max(-1.57, Math.min(1.57, this.pitch + pitch));
      this.draw(this.frame);
    }

    place() {
      const sharp = Math.max(1, window.devicePixelRatio || 1);
      [this.canvas.width, this.canvas.height] = [this.canvas.clientWidth * sharp, this.canvas.clientHeight * sharp].map(Math.round);
    }

    // The first axis to the right, the last one up, before it is turned.
    turned(x, y, z) {
      const [c, s, e, f] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
      const depth = s * x + c * y;
      return [c * x - s * y, e * z + f * depth, e * depth - f * z];
    }

    draw(frame) {
      this.frame = Math.min(frame, this.field.values.length - 1);
      const [low, high] = this.field.limits, share = (Number(this.slider.value) + 0.5) / (Number(this.slider.max) + 1);
      const level = low + share * (high - low), key = `solid ${this.field.label} ${this.frame}`;
      const field = remember(key, () => restore(this.field.values[this.frame]));
      const found = remember(`surface ${key} ${level}`, () => surface(field, level)), { x, skin } = tetrahedra();
      const label = `${this.field.label} = ${short(level)}`;
      this.slider.parentElement.querySelector("output").textContent = label;
      this.slider.setAttribute("aria-valuetext", label);
      this.canvas.dataset.area = areaOf(found) * solid.size ** 2;
      const pen = this.canvas.getContext("2d"), { width, height } = this.canvas, scale = 0.62 * Math.min(width, height);
      const spot = ([u, v]) => [width / 2 + scale * u, height / 2 - scale * v];
      const fill = (corners) => {
        pen.beginPath();
        corners.forEach((corner, i) => (i ? pen.lineTo(...spot(corner)) : pen.moveTo(...spot(corner))));
        pen.closePath();
        pen.fill();
      };
      pen.clearRect(0, 0, width, height);
      pen.fillStyle = ink();
      pen.globalAlpha = 0.035;
      for (let k = 0; k < skin.length; k += 3) fill([0, 1, 2].map((i) => this.turned(...x.subarray(3 * skin[k + i], 3 * skin[k + i] + 3))));
      pen.globalAlpha = 1;
      const table = colours(solid.colours), at = 3 * Math.min(255, Math.floor(256 * share));
      const triangles = [];
      found.slopes.forEach((slope, k) => {
        const corners = [0, 3, 6].map((j) => this.turned(...found.corners.slice(9 * k + j, 9 * k + j + 3))), normal = this.turned(...slope);
        const light = 0.5 + 0.5 * Math.abs(normal[2] - 0.5 * normal[1] - 0.2 * normal[0]) / (1.12 * Math.hypot(...normal) || 1);
        triangles.push([corners[0][2] + corners[1][2] + corners[2][2], corners, light]);
      });
      triangles.sort((a, b) => b[0] - a[0]);
      pen.lineWidth = 0.7;
      for (const [, corners, light] of triangles) {
        pen.fillStyle = pen.strokeStyle = `rgb(${[0, 1, 2].map((i) => Math.round(Math.min(1, light) * table[at + i])).join(",")})`;
        fill(corners);
        pen.stroke();
      }
      this.axes(pen, height);
    }

    axes(pen, height) {
      const sharp = Math.max(1, window.devicePixelRatio || 1), [left, low] = [46 * sharp, height - 46 * sharp];
      pen.fillStyle = pen.strokeStyle = ink();
      pen.font = `${Math.round(12 * sharp)}px system-ui, sans-serif`;
      [[1, 0, 0, "x₁"], [0, 1, 0, "x₂"], [0, 0, 1, "x₃"]].forEach(([u, v, w, name]) => {
        const [right, up] = this.turned(u, v, w).map((c) => 34 * sharp * c);
        pen.beginPath();
        pen.moveTo(left, low);
        pen.lineTo(left + right, low - up);
        pen.stroke();
        pen.fillText(name, left + 1.15 * right, low - 1.15 * up);
      });
    }
  }

  const turning = solid ? [...document.querySelectorAll(".solid")].map((box) => new Solid(box)) : [];

  // --- Sliders -------------------------------------------------------------------------------------------------

  // Frames are those of each member of a family one after the other, each at all times.
  const sliders = [...document.querySelectorAll(".controls [data-slider]")], input = sliders.find((one) => one.dataset.slider === "time");
  const family = sliders.filter((one) => one !== input), times = data.labels ? data.labels.length : 1;
  const typical = family.every((one) => Number(one.max) % 2 === 0);
  let frame = times - 1;
  const say = (slider, label) => {
    slider.parentElement.querySelector("output").textContent = label;
    slider.setAttribute("aria-valuetext", label);
  };
  const show = () => {
    let member = 0, middle = typical;
    family.forEach((slider, k) => {
      const labels = data.parameters[k].labels;
      member = member * labels.length + Number(slider.value);
      middle = middle && Number(slider.value) === Number(slider.max) / 2;
      say(slider, labels[Number(slider.value)]);
    });
    const time = input ? Number(input.value) : times - 1;
    if (input) {
      say(input, data.labels[time]);
      for (const cell of document.querySelectorAll("td[data-now]")) cell.textContent = middle ? data.now[cell.dataset.now][time] : "–";
    }
    frame = member * times + time;
    for (const panel of views) panel.draw(frame);
    for (const one of turning) one.draw(time);
  };
  for (const slider of family) slider.addEventListener("input", show);
  if (input) {
    const button = input.parentElement.querySelector("button");
    let timer = null;
    const stop = () => { clearInterval(timer); timer = null; button.textContent = "▶"; button.setAttribute("aria-label", "play"); };
    input.addEventListener("input", () => { stop(); show(); });
    button.addEventListener("click", () => {
      if (timer) return stop();
      button.textContent = "❚❚";
      button.setAttribute("aria-label", "pause");
      timer = setInterval(() => { input.value = (Number(input.value) + 1) % data.labels.length; show(); }, 600);
    });
  }

  // --- Curves --------------------------------------------------------------------------------------------------

  const letters = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  const plain = (text) => String(text).replace(/[&<>"]/g, (c) => letters[c]);
  const power = (e) => `10<tspan dy="-4" font-size="8">${String(e).replace("-", "−")}</tspan>`;

  const chart = (box, spec) => {
    const width = Math.max(260, box.clientWidth), height = spec.height, left = 46, right = 10, bottom = 34;
    const crowded = spec.marks.some((mark, i) => i && (mark.x - spec.marks[i - 1].x) / spec.end * (width - left) < 70);
    const top = spec.marks.length ? (crowded ? 30 : 18) : 8;
    const all = spec.lines.flatMap((line) => line.y).filter((v) => v > 0);
    const low = Math.floor(Math.log10(all.length ? Math.min(...all) : 1) + 1e-9);
    const high = Math.max(low + 1, Math.ceil(Math.log10(all.length ? Math.max(...all) : 10) - 1e-9));
    const sx = (x) => left + (width - left - right) * (x - spec.start) / (spec.end - spec.start || 1);
    const sy = (y) => top + (height - top - bottom) * (high - Math.log10(y)) / (high - low);
    const parts = [], every = Math.ceil((high - low) / 6);
    for (let e = high; e >= low; e -= every) {
      const y = sy(10 ** e);
      parts.push(`<line class="rule" x1="${left}" x2="${width - right}" y1="${y}" y2="${y}"/><text x="${left - 6}" y="${y + 4}" text-anchor="end">${power(e)}</text>`);
    }
    for (const v of niceSteps(spec.start, spec.end, Math.min(8, width / 90))) {
      parts.push(`<text x="${sx(v)}" y="${height - bottom + 15}" text-anchor="middle">${short(v)}</text>`);
    }
    parts.push(`<text x="${(left + width - right) / 2}" y="${height - 4}" text-anchor="middle">${plain(spec.label)}</text>`);
    let raised = false;
    spec.marks.forEach((mark, i) => {
      raised = crowded && i > 0 && !raised;
      if (i || mark.x > spec.start) parts.push(`<line class="mark" x1="${sx(mark.x)}" x2="${sx(mark.x)}" y1="${top}" y2="${height - bottom}"/>`);
      parts.push(`<text class="stage" x="${sx(mark.x)}" y="${raised ? top - 17 : top - 5}">${plain(mark.label)}</text>`);
    });
    spec.lines.forEach((line, k) => {
      let path = "", pen = false, lone = "";
      line.y.forEach((y, i) => {
        const good = y !== null && y > 0;
        const apart = spec.breaks.includes(i);
        if (good) path += `${pen && !apart ? "L" : "M"}${sx(line.x[i]).toFixed(1)},${sy(y).toFixed(1)}`;
        if (good && (!pen || apart) && !(line.y[i + 1] > 0)) lone += `<circle cx="${sx(line.x[i])}" cy="${sy(y)}" r="2"/>`;
        pen = good;
      });
      parts.push(`<path class="line${k}" d="${path}"/><g class="dot${k}">${lone}</g>`);
    });
    box.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${plain(spec.title)}">${parts.join("")}<line class="here" y1="${top}" y2="${height - bottom}" visibility="hidden"/></svg>`;
    const svg = box.firstChild, here = svg.querySelector(".here"), words = box.parentElement.querySelector(".said"), rest = spec.said;
    words.textContent = rest;
    svg.addEventListener("pointermove", (event) => {
      const x = spec.start + (event.offsetX - left) / (width - left - right) * (spec.end - spec.start), xs = spec.lines[0].x;
      let best = 0;
      xs.forEach((v, i) => { if (Math.abs(v - x) < Math.abs(xs[best] - x)) best = i; });
      here.setAttribute("x1", sx(xs[best]));
      here.setAttribute("x2", sx(xs[best]));
      here.setAttribute("visibility", "visible");
      words.textContent = `${spec.label} ${short(xs[best])}: ` + spec.lines.map((line) => `${line.label} ${short(line.y[best])}`).join(", ");
    });
    svg.addEventListener("pointerleave", () => { here.setAttribute("visibility", "hidden"); words.textContent = rest; });
  };

  // --- Layout --------------------------------------------------------------------------------------------------

  const lay = () => {
    for (const key of [...kept.keys()]) if (key.startsWith("raster")) kept.delete(key);
    for (const panel of [...views, ...turning]) panel.place();
    show();
    for (const box of document.querySelectorAll(".chart")) chart(box, data.charts[box.dataset.chart]);
  };
  let width = 0, waiting = null;
  const again = () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    lay();
  };
  if (holder) {
    again();
    window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(again, 120); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  }
})();
