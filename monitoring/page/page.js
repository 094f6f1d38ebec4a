// The live status page of a job. It reads /api/v1/status and /api/v1/history, and draws them into the elements of
// job.html. All text goes through textContent, because names and messages come from other processes.
'use strict';
document.documentElement.classList.add('live');

const STATUS_EVERY = 2000, ANSWER_WITHIN = 8000;
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

function el(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

function shape(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (parent) parent.append(node);
  return node;
}

// ---- numbers and times for people

function number(value, digits = 4) {
  if (typeof value !== 'number' || !isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  if (size >= 10 ** (digits - 1)) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(digits)));
}

function whole(value) {
  return typeof value === 'number' && isFinite(value) ? Math.round(value).toLocaleString('en-US') : '–';
}

function duration(seconds) {
  if (typeof seconds !== 'number' || !isFinite(seconds)) return '–';
  if (seconds < 1) return `${number(seconds * 1000, 3)} ms`;
  if (seconds < 10) return `${number(seconds, 2)} s`;
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[first], next = units[first + 1];
  const count = Math.floor(seconds / size), rest = next ? Math.floor((seconds - count * size) / next[0]) : 0;
  return `${count.toLocaleString('en-US')} ${unit}` + (rest ? ` ${rest} ${next[1]}` : '');
}

function bytes(count) {
  if (typeof count !== 'number') return '';
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return `${number(count, 3)} ${units[unit]}`;
}

const clock = (time) => new Date(time * 1000).toLocaleTimeString([], {hour12: false});

// ---- words and colours

const STATES = {
  running: 'good running', finished: 'good', waiting: 'warn', gathering: 'busy', starting: 'busy', stopped: 'calm', failed: 'bad',
};
const BOUNDS = {
  compute: ['computing', 'good'], network: ['network', 'busy'], server: ['server', 'busy'], input: ['input', 'busy'],
  straggler: ['straggler', 'warn'], waiting: ['waiting', 'warn'], snapshot: ['snapshot', 'calm'],
};
const MEMBER_STATES = {
  computing: 'good', alive: 'good', waiting: 'busy', loading: 'busy', 'no slot': 'calm', silent: 'bad', 'never seen': 'bad',
};
// Each mark lies in a square of 10 x 10 around 0, 0.
const CIRCLE = 'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z', DIAMOND = 'M0-5L5 0L0 5L-5 0z', PLAY = 'M-4-5L5 0L-4 5z', SQUARE = 'M-4-4h8v8h-8z';
const CROSS = 'M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z', UP = 'M0-5L5 4L-5 4z', DOWN = 'M0 5L5-4L-5-4z';
const KINDS = {
  start: ['start', PLAY, 'busy'], join: ['joined', UP, 'calm'], leave: ['left', DOWN, 'calm'], lost: ['lost', CROSS, 'bad'],
  recovery: ['recovery', CIRCLE, 'warn'], snapshot: ['snapshot', DIAMOND, 'good'], set_aside: ['set aside', DOWN, 'warn'],
  end: ['end', SQUARE, 'calm'],
};
const kindOf = (event) => KINDS[event.kind] || [event.kind, CIRCLE, 'calm'];
const PREFIXED = new Set(['join', 'leave']); // their texts only say who it was
const LINED = new Set(['start', 'lost', 'recovery', 'set_aside', 'end']); // shown across the curves

// ---- curves

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

function smooth(values) {
  const reach = Math.floor(values.length / 50);
  if (reach < 2) return null;
  const sums = [0], counts = [0];
  for (const value of values) {
    sums.push(sums[sums.length - 1] + (value ?? 0));
    counts.push(counts[counts.length - 1] + (value === null ? 0 : 1));
  }
  return values.map((_, i) => {
    const from = Math.max(0, i - reach), to = Math.min(values.length, i + reach + 1);
    return counts[to] > counts[from] ? (sums[to] - sums[from]) / (counts[to] - counts[from]) : null;
  });
}

const TICKS_MAX = 100; // reached where the steps are smaller than the numbers' last digit
const LOG_TICKS_MAX = 10;

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const each = [1, 2, 5, 10].find((step) => step * power >= raw) * power;
  const all = [];
  for (let i = Math.ceil(low / each); i * each <= high + each * 1e-9 && all.length < TICKS_MAX; ++i) all.push(i * each);
  return all;
}

function logTicks(low, high) {
  const all = [];
  // A number below 1e-307 has few digits, and one above 1e308 is infinite.
  for (let power = Math.max(-307, Math.floor(Math.log10(low))); power <= 308 && 10 ** power <= high; ++power) {
    for (const digit of [1, 2, 5]) {
      const value = digit * 10 ** power;
      if (value >= low && value <= high) all.push(value);
    }
  }
  if (all.length <= 5) return all;
  const powers = all.filter((value) => /^1/.test(value.toExponential())), each = Math.ceil(powers.length / LOG_TICKS_MAX);
  return powers.filter((_, i) => i % each === 0);
}

const MARGIN = {left: 46, right: 8, top: 6, bottom: 18};

class Chart {
  // `series`: [{key, name, tone, points: some steps only have a value, exact: it is not noisy}]; `zero`: the axis begins at 0.
  constructor(id, title, height, series, zero) {
    this.figure = $(id);
    Object.assign(this, {height, series, zero});
    this.caption = el('figcaption', '', title);
    this.values = series.map((one) => {
      const value = el('span');
      this.caption.append(series.length > 1 ? el('span', one.tone, el('i'), `${one.name} `, value) : value);
      return value;
    });
    this.svg = shape('svg', {role: 'img', 'aria-label': `${title} over steps`, height});
    this.figure.append(this.caption, this.svg);
    this.svg.addEventListener('pointermove', (event) => hover(this, event));
    this.svg.addEventListener('pointerleave', () => hover(null));
  }

  draw(events) {
    const points = past.points, width = this.figure.clientWidth;
    this.svg.replaceChildren();
    this.series.forEach((one, i) => {
      const last = points.findLast((point) => typeof point[one.key] === 'number');
      this.values[i].textContent = last ? number(last[one.key]) : '';
    });
    if (width === 0) return;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.height}`);
    const range = this.range(points);
    if (!range) {
      shape('text', {x: width / 2, y: this.height / 2, 'text-anchor': 'middle'}, this.svg).textContent = 'no steps yet';
      this.x = null;
      return;
    }
    this.x = xAxis(points, width);
    this.y = range;
    this.axes(width);
    const clip = `${this.figure.id}-clip`;
    const box = {x: MARGIN.left, y: 0, width: width - MARGIN.left - MARGIN.right, height: this.height - MARGIN.bottom};
    shape('rect', box, shape('clipPath', {id: clip}, this.svg));
    const inside = shape('g', {'clip-path': `url(#${clip})`}, this.svg);
    for (const event of events.filter((one) => LINED.has(one.kind))) {
      const x = this.x(event.step);
      shape('line', {class: `event ${kindOf(event)[2]}`, x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom}, inside);
    }
    for (const one of this.series) this.curve(points, one, inside);
    this.cross = shape('line', {class: 'cross', y1: MARGIN.top, y2: this.height - MARGIN.bottom, visibility: 'hidden'}, this.svg);
  }

  // Returns the function from values to pixels; null if there are no values. It leaves out single far-off values.
  range(points) {
    let all = [], kept = [];
    for (const one of this.series) {
      const values = points.map((point) => point[one.key]).filter((value) => typeof value === 'number');
      all = all.concat(values);
      const sorted = [...values].sort((a, b) => a - b);
      if (sorted.length) kept.push(quantile(sorted, 0.002), quantile(sorted, values.length > 50 ? 0.995 : 1));
    }
    if (!kept.length) return null;
    let low = Math.min(...kept), high = Math.max(...kept);
    const log = !this.zero && low > 0 && low < 1e290 && high > 1e-290 && high / low > 20;
    if (this.zero) low = Math.min(0, low);
    if (high === low) [low, high] = this.zero ? [low, high || 1] : [low - Math.abs(low) * 0.1 - 1e-9, high + Math.abs(high) * 0.1 + 1e-9];
    // A far-off value may be 0 or less, which has no logarithm.
    const scale = log ? (value) => Math.log(Math.max(value, Number.MIN_VALUE)) : (value) => value;
    const back = log ? Math.exp : (value) => value;
    const pad = (scale(high) - scale(low)) * 0.06;
    // The limits keep exp() of both ends from 0 and infinity.
    const inside = (end) => (log ? Math.min(700, Math.max(-700, end)) : end);
    const bottom = this.zero && low === 0 ? 0 : inside(scale(low) - pad), top = inside(scale(high) + pad);
    const pixels = this.height - MARGIN.top - MARGIN.bottom;
    const y = (value) => MARGIN.top + pixels * (1 - (scale(value) - bottom) / (top - bottom));
    const inLog = log ? logTicks(back(bottom), back(top)) : [];
    const marked = inLog.length > 1 ? inLog : ticks(back(bottom), back(top), this.height > 150 ? 5 : 4);
    return Object.assign(y, {marked});
  }

  axes(width) {
    for (const value of this.y.marked) {
      const y = this.y(value);
      shape('line', {class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y}, this.svg);
      shape('text', {x: MARGIN.left - 7, y: y + 4, 'text-anchor': 'end'}, this.svg).textContent = number(value, 3);
    }
    const marked = ticks(this.x.first, this.x.last, Math.max(2, Math.floor(width / 110))).filter((step) => Number.isInteger(step));
    for (const step of marked) {
      const anchor = this.x(step) > width - 30 ? 'end' : 'middle';
      shape('text', {x: this.x(step), y: this.height - 3, 'text-anchor': anchor}, this.svg).textContent = whole(step);
    }
  }

  curve(points, one, parent) {
    const values = points.map((point) => (typeof point[one.key] === 'number' ? point[one.key] : null));
    const path = (list) => {
      let text = '', pen = 'M';
      list.forEach((value, i) => {
        if (value === null) {
          if (!one.points) pen = 'M';
          return;
        }
        text += `${pen}${this.x(points[i].step).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = 'L';
      });
      return text;
    };
    const group = shape('g', {class: one.tone}, parent);
    const means = one.points || one.exact ? null : smooth(values);
    if (means) shape('path', {class: 'raw', d: path(values)}, group);
    shape('path', {class: 'line', d: path(means || values)}, group);
    const known = values.map((value, i) => [value, i]).filter(([value]) => value !== null);
    if (known.length > (one.points ? 60 : 1)) return;
    for (const [value, i] of known) {
      shape('circle', {class: 'point', cx: this.x(points[i].step), cy: this.y(value), r: 3}, group);
    }
  }
}

function xAxis(points, width) {
  const first = points.length ? Math.min(points[0].step, 0) : 0, last = Math.max(first + 1, points.length ? points[points.length - 1].step : 1);
  const pixels = width - MARGIN.left - MARGIN.right;
  const x = (step) => MARGIN.left + pixels * Math.min(1, Math.max(0, (step - first) / (last - first)));
  return Object.assign(x, {first, last, step: (pixel) => first + (last - first) * (pixel - MARGIN.left) / pixels});
}

// The events on the axis of the curves, below the loss.
class Strip {
  constructor(id) {
    this.figure = $(id);
    this.height = 16;
    this.svg = shape('svg', {role: 'img', 'aria-label': 'Events over steps', height: this.height});
    this.figure.append(this.svg);
    this.svg.addEventListener('pointermove', (event) => hover(this, event));
    this.svg.addEventListener('pointerleave', () => hover(null));
  }

  draw(events) {
    const width = this.figure.clientWidth;
    this.svg.replaceChildren();
    this.x = past.points.length && width ? xAxis(past.points, width) : null;
    if (!this.x) return;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.height}`);
    const onTop = ['leave', 'join', 'snapshot', 'start', 'end', 'recovery', 'set_aside', 'lost'];
    const sorted = [...events].sort((a, b) => onTop.indexOf(a.kind) - onTop.indexOf(b.kind));
    for (const event of sorted) {
      const [, mark, tone] = kindOf(event);
      shape('path', {class: `mark ${tone}`, d: mark, transform: `translate(${this.x(event.step)} 8)`}, this.svg);
    }
  }
}

const charts = [];
let strip = null;
let past = {points: [], events: []}, job = {};

function drawCurves() {
  for (const chart of charts) chart.draw(past.events);
  strip.draw(past.events);
  const each = past.steps_per_point;
  $('resolution').textContent = each > 1 ? `A point is the mean of ${whole(each)} steps.` : '';
}

function hover(chart, event) {
  const hint = $('hint'), points = past.points;
  hint.hidden = true;
  for (const one of charts) if (one.cross) one.cross.setAttribute('visibility', 'hidden');
  if (!chart || !chart.x || !points.length) return;
  const box = chart.svg.getBoundingClientRect(), wanted = chart.x.step(event.clientX - box.left);
  let at = points.findIndex((point) => point.step >= wanted);
  if (at < 0) at = points.length - 1;
  if (at > 0 && wanted - points[at - 1].step < points[at].step - wanted) --at;
  const point = points[at];
  for (const one of charts) {
    if (!one.cross || !one.x) continue;
    for (const end of ['x1', 'x2']) one.cross.setAttribute(end, one.x(point.step));
    one.cross.setAttribute('visibility', 'visible');
  }
  hint.replaceChildren(el('b', '', `step ${whole(point.step)}`, el('small', '', point.time ? `  ${clock(point.time)}` : '')));
  for (const [key, name] of [['loss', 'loss'], ['validation_loss', 'validation loss'], ['learning_rate', 'learning rate'],
    ['grad_norm', 'gradient norm'], ['samples_per_second', 'samples a second']]) {
    if (typeof point[key] === 'number') hint.append(el('p', '', el('small', '', name), number(point[key], 5)));
  }
  const near = past.events.filter((one) => Math.abs(chart.x(one.step) - chart.x(point.step)) < 6);
  for (const one of near.slice(-6)) hint.append(el('p', '', markOf(one), one.text));
  hint.hidden = false;
  const left = event.clientX + 16 + hint.offsetWidth < innerWidth ? event.clientX + 16 : event.clientX - hint.offsetWidth - 16;
  hint.style.left = `${Math.max(8, left)}px`;
  hint.style.top = `${Math.max(8, Math.min(event.clientY + 16, innerHeight - hint.offsetHeight - 8))}px`;
}

function markOf(event) {
  const [name, mark, tone] = kindOf(event);
  const svg = shape('svg', {viewBox: '-6 -6 12 12', width: 12, height: 12, role: 'img', 'aria-label': name});
  shape('path', {class: `mark ${tone}`, d: mark}, svg);
  return svg;
}

// ---- the parts of the page

function drawHead() {
  $('job').textContent = job.job;
  document.title = `${job.job}: ${job.step}${job.steps ? ` of ${job.steps}` : ''}`;
  const words = [`up ${duration(job.seconds_up)}`];
  if (job.generation > 1) words.push(`generation ${job.generation}`);
  if (job.transport) words.push(job.transport);
  $('subtitle').textContent = words.join(' · ');
  $('state').textContent = job.state;
  $('state').className = `pill ${STATES[job.state] || 'calm'}`;
}

function drawProgress() {
  $('step').textContent = whole(job.step);
  const share = job.steps ? job.step / job.steps : 0;
  // Without a number of steps the job ends where its programs end.
  $('steps').textContent = job.steps ? `of ${whole(job.steps)} steps · ${Math.floor(100 * share)} %` : 'steps';
  const left = $('left');
  if (typeof job.seconds_left === 'number') left.textContent = `${duration(job.seconds_left)} left`;
  else left.textContent = job.state === 'finished' ? 'done' : job.state === 'running' ? '' : job.state;
  $('done').style.width = `${100 * share}%`;
  $('bar').setAttribute('aria-valuenow', job.step);
  $('bar').setAttribute('aria-valuemax', job.steps || job.step);
  $('marks').replaceChildren(...(job.steps ? job.snapshots || [] : []).map((snapshot) => {
    const mark = el('i');
    mark.title = `snapshot of version ${whole(snapshot.version)}`;
    mark.style.left = `${100 * snapshot.version / job.steps}%`;
    return mark;
  }));
  const bound = job.bound_by || {}, [word, tone] = BOUNDS[bound.what] || ['', 'calm'];
  $('bound-what').textContent = word;
  $('bound-what').hidden = word === '';
  $('bound-what').className = `tag ${tone}`;
  $('bound-sentence').textContent = bound.sentence || '';
  const figures = [
    ['loss', number(job.loss)], ['validation loss', number(job.validation_loss)],
    ['samples a second', number(job.samples_per_second, 3)], ['a step takes', duration(job.step_seconds)],
    ['learning rate', number(job.learning_rate, 3)], ['gradient norm', number(job.grad_norm, 3)],
  ];
  $('figures').replaceChildren(...figures.map(([name, value]) => el('div', '', el('dt', '', name), el('dd', '', value))));
}

function slotsOf(text) {
  const own = new Set();
  for (const part of text.split(',')) {
    const [first, last] = part.split('-').map(Number);
    for (let slot = first; part.trim() && slot <= (last ?? first); ++slot) own.add(slot);
  }
  return own;
}

function slotCells(text) {
  const own = slotsOf(text), cells = el('div', 'slots');
  cells.title = text ? `slots ${text} of ${job.slots}` : 'no slot';
  if (job.slots > 48) {
    cells.append(el('span', '', text ? `${own.size} of ${job.slots} slots` : 'no slot'));
  } else {
    for (let slot = 0; slot < job.slots; ++slot) cells.append(el('i', own.has(slot) ? 'own' : ''));
  }
  return cells;
}

function timeBar(parts) {
  const bar = el('div', 'time');
  for (const [name, share, words] of parts) {
    const part = el('i', name);
    part.style.width = `${100 * share}%`;
    part.title = `${Math.round(100 * share)} % ${words}`;
    bar.append(part);
  }
  return bar;
}

const isLocal = (host) => /^(127\.[\d.]+|\[::1\]|localhost)$/.test(host);

// Links a member's name to its own page, if this browser may reach its address.
function nameOf(text, address) {
  let url = null;
  try {
    url = new URL(/^https:\/\//.test(address) ? address : `http://${address}`);
  } catch (error) {
    return document.createTextNode(text);
  }
  if (!address || (isLocal(url.hostname) && !isLocal(location.hostname))) return document.createTextNode(text);
  const link = el('a', '', text);
  link.href = url.href;
  return link;
}

function lane(name, address, tone, middle, bar, facts, attention) {
  const node = el('div', `lane ${tone}${attention ? ' attention' : ''}`,
    el('div', 'name', el('span', 'dot'), el('span', '', nameOf(name, address))), middle, bar, el('div', 'facts', ...facts));
  return node;
}

function drawWorkers() {
  const workers = job.workers || [];
  $('worker-count').textContent = whole(job.worker_count) + (job.worker_count > workers.length ? `, of which ${workers.length} are shown` : '');
  const bound = job.bound_by || {};
  $('workers').replaceChildren(...workers.map((worker) => {
    const time = worker.time || {};
    const bar = timeBar(worker.time ? [['compute', time.compute, 'computing'], ['input', time.input, 'reading samples'],
      ['exchange', time.exchange, 'waiting for weights or sums'], ['commit', time.commit, 'waiting for the next step']] : []);
    const slowest = bound.what === 'straggler' && bound.who === worker.worker;
    const heard = parseInt(worker.last_heard, 10);
    const tone = heard >= 3 ? 'bad' : slowest ? 'warn' : MEMBER_STATES[worker.state] || 'calm';
    const word = heard >= 3 ? `silent for ${heard} s` : slowest ? 'slowest' : worker.state;
    // A worker reports once a second, so the job's step is newer than the one in its report.
    const lag = worker.lag > 0 ? `, ${whole(worker.lag)} behind` : '';
    return lane(worker.worker, worker.metrics, tone, slotCells(worker.slots), bar,
      [el('b', '', word), ` · step ${whole(Math.max(worker.step, job.step - worker.lag))}${lag}`], heard >= 3 || slowest);
  }));
  if (!workers.length) $('workers').append(el('p', 'empty', 'no worker has joined'));
  $('aside').replaceChildren(...(job.set_aside || []).map((one) =>
    el('div', 'lane attention warn', el('div', 'name', el('span', 'dot'), one.worker), el('div', 'facts', el('b', '', 'set aside')),
      el('div', 'facts', one.why))));
}

function drawShards() {
  const shards = job.shards || [];
  $('shard-count').textContent = whole(job.shard_count) + (job.shard_count > shards.length ? `, of which ${shards.length} are shown` : '');
  $('shards').replaceChildren(...shards.map((shard) => {
    const tone = MEMBER_STATES[shard.state] || 'calm';
    const busy = typeof shard.busy === 'number';
    const facts = [el('b', '', shard.state)];
    if (shard.state === 'silent') facts.push(` · last heard ${shard.last_heard}`);
    else if (busy) facts.push(` · busy ${Math.round(100 * shard.busy)} %`);
    return lane(shard.shard, shard.metrics, tone, el('div', 'facts', shard.address.replace(/^(tcp|ipc):\/\//, '').replace(/^.*\//, '')),
      timeBar(busy ? [['compute', shard.busy, 'busy']] : []), facts, tone !== 'good');
  }));
}

function drawSnapshots() {
  const rows = (job.snapshots || []).map((one) => el('p', '', `version ${whole(one.version)}`,
    el('span', '', [bytes(one.bytes), typeof one.age_seconds === 'number' ? `${duration(one.age_seconds)} old` : ''].filter(Boolean).join(' · '))));
  const pending = job.snapshot_pending;
  if (pending) {
    rows.unshift(el('p', '', `version ${whole(pending.version)}`, el('span', '', `being written for ${duration(pending.seconds)}`)));
  }
  $('snapshots').replaceChildren(...(rows.length ? rows : [el('p', 'empty', 'none yet')]));
}

function drawEvents() {
  const now = job.time;
  const rows = [...past.events].reverse().map((event) => {
    const time = el('time', '', now - event.time < 3600 ? `${duration(Math.max(0, Math.floor(now - event.time)))} ago` : clock(event.time));
    time.title = `${new Date(event.time * 1000).toLocaleString()}, step ${whole(event.step)}`;
    return el('li', '', markOf(event), time, el('span', '', PREFIXED.has(event.kind) ? `${kindOf(event)[0]}: ${event.text}` : event.text));
  });
  $('events').replaceChildren(...(rows.length ? rows : [el('li', 'empty', 'none yet')]));
}

function drawFiles() {
  const key = `${job.logs} ${job.run_directory}`;
  if ($('files').dataset.of === key) return; // so that a reader can select a path
  $('files').dataset.of = key;
  const rows = [['/metrics', 'for Prometheus'], ['/api/v1/status', 'this page as JSON'], ['/api/v1/history', 'its curves as JSON']].map(([path, what]) => {
    const link = el('a', '', path);
    link.href = path;
    return el('li', '', link, el('span', '', what));
  });
  const file = (path, what) => rows.push(el('li', '', el('code', '', path), el('span', '', what)));
  if (job.logs) file(`${job.logs}/`, 'logs');
  if (job.run_directory) {
    file(`${job.run_directory}/metrics.jsonl`, 'steps');
    file(`${job.run_directory}/audit.jsonl`, 'events');
  }
  $('files').replaceChildren(...rows);
}

// ---- reading

async function read(path) {
  const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(ANSWER_WITHIN)});
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

let lastAnswer = Date.now(), historyDue = 0;

function showTrouble() {
  const trouble = $('trouble'), silent = Math.round((Date.now() - lastAnswer) / 1000);
  if (silent >= 5) {
    trouble.textContent = `The coordinator has not answered for ${duration(silent)}. This is what it said last` +
      (job.state === 'finished' ? '; the job was finished.' : '.');
    $('state').className = 'pill calm';
  } else if (job.failure) {
    trouble.textContent = job.failure;
  }
  trouble.hidden = silent < 5 && !job.failure;
}

async function update() {
  job = await read('/api/v1/status');
  lastAnswer = Date.now();
  document.documentElement.classList.add('live');
  $('live').hidden = false;
  drawHead();
  drawProgress();
  drawWorkers();
  drawShards();
  drawSnapshots();
  drawFiles();
  if (Date.now() >= historyDue) {
    past = await read('/api/v1/history');
    historyDue = Date.now() + (past.points.length > 400 ? 2 : 1) * STATUS_EVERY - 100; // a long one changes slowly
    drawCurves();
  }
  drawEvents();
}

async function run() {
  if (!document.hidden) {
    try {
      await update();
    } catch (error) {
      console.warn(error);
      if ($('live').hidden) document.documentElement.classList.remove('live'); // the tables are better than nothing
    }
    showTrouble();
  }
  setTimeout(run, STATUS_EVERY);
}

document.addEventListener('DOMContentLoaded', () => {
  charts.push(
    new Chart('chart-loss', 'Loss', 250, [{key: 'loss', name: 'training', tone: 'good'},
      {key: 'validation_loss', name: 'validation', tone: 'warn', points: true}], false),
    new Chart('chart-learning-rate', 'Learning rate', 130, [{key: 'learning_rate', name: '', tone: 'busy', exact: true}], true),
    new Chart('chart-grad-norm', 'Gradient norm', 130, [{key: 'grad_norm', name: '', tone: 'violet'}], false),
    new Chart('chart-samples', 'Samples a second', 130, [{key: 'samples_per_second', name: '', tone: 'good'}], true));
  strip = new Strip('strip');
  addEventListener('resize', () => drawCurves());
  run();
});
