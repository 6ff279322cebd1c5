// Pictures with a palette: a page has few colours, and a picture of it then takes a third of the room.

import { deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])
const MAX_COLOURS = 256

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1
  return c
})

function crc(bytes) {
  let c = 0xffffffff
  for (const byte of bytes) c = TABLE[(c ^ byte) & 255] ^ (c >>> 8)
  return (c ^ 0xffffffff) >>> 0
}

/** The pixels of a picture as browsers write it: eight bits, RGB or RGBA, not interlaced. */
export function decode(png) {
  const parts = []
  let header
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const [kind, body] = [png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, at + 8 + length)]
    if (kind === 'IHDR') header = body
    if (kind === 'IDAT') parts.push(body)
    at += length + 12
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)]
  const channels = { 2: 3, 6: 4 }[header[9]]
  if (header[8] !== 8 || header[12] !== 0 || !channels) throw new Error('not a picture of a browser')
  return { width, height, channels, pixels: unfiltered(inflateSync(Buffer.concat(parts)), width * channels, height, channels) }
}

function unfiltered(raw, stride, height, step) {
  const out = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y++) {
    const [filter, from, to] = [raw[y * (stride + 1)], y * (stride + 1) + 1, y * stride]
    for (let x = 0; x < stride; x++) {
      const left = x >= step ? out[to + x - step] : 0
      const up = y > 0 ? out[to + x - stride] : 0
      const corner = x >= step && y > 0 ? out[to + x - stride - step] : 0
      out[to + x] = raw[from + x] + predicted(filter, left, up, corner)
    }
  }
  return out
}

function predicted(filter, left, up, corner) {
  switch (filter) {
    case 0: return 0
    case 1: return left
    case 2: return up
    case 3: return (left + up) >> 1
    default: {
      const p = left + up - corner
      const [a, b, c] = [Math.abs(p - left), Math.abs(p - up), Math.abs(p - corner)]
      return a <= b && a <= c ? left : b <= c ? up : corner
    }
  }
}

/** The colours in at most 256 boxes: the box that is widest, by its pixels, is cut in two until there are enough. */
function boxes(counts) {
  const all = [...counts].map(([colour, count]) => ({ colour, count, rgb: [colour >> 16, (colour >> 8) & 255, colour & 255] }))
  const measured = (colours) => {
    const range = (n) => {
      const values = colours.map(({ rgb }) => rgb[n])
      return values.reduce((a, b) => Math.max(a, b)) - values.reduce((a, b) => Math.min(a, b))
    }
    const [axis, width] = [0, 1, 2].map((n) => [n, range(n)]).reduce((a, b) => (b[1] > a[1] ? b : a))
    const pixels = colours.reduce((sum, { count }) => sum + count, 0)
    return { colours, axis, weight: width * Math.sqrt(pixels) }
  }
  const found = [measured(all)]
  while (found.length < MAX_COLOURS) {
    found.sort((a, b) => b.weight - a.weight)
    if (found[0].weight === 0) break
    const { colours, axis } = found.shift()
    colours.sort((a, b) => a.rgb[axis] - b.rgb[axis])
    const half = colours.reduce((sum, { count }) => sum + count, 0) / 2
    let [cut, sum] = [0, 0]
    while (cut < colours.length - 1 && (cut === 0 || sum + colours[cut].count <= half)) sum += colours[cut++].count
    found.push(measured(colours.slice(0, cut)), measured(colours.slice(cut)))
  }
  return found.map(({ colours }) => colours)
}

function chunk(kind, body) {
  const named = Buffer.concat([Buffer.from(kind, 'latin1'), body])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(body.length)
  sum.writeUInt32BE(crc(named))
  return Buffer.concat([length, named, sum])
}

/** The same picture with a palette. */
export function withPalette(png) {
  const { width, height, channels, pixels } = decode(png)
  const colour = (at) => (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]
  const counts = new Map()
  for (let at = 0; at < pixels.length; at += channels) counts.set(colour(at), (counts.get(colour(at)) ?? 0) + 1)
  const [palette, place] = [[], new Map()]
  for (const colours of boxes(counts)) {
    // The most frequent of a box stands for it: grounds and lines keep their exact colour.
    const { rgb } = colours.reduce((a, b) => (b.count > a.count ? b : a))
    for (const one of colours) place.set(one.colour, palette.length / 3)
    palette.push(...rgb)
  }
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = place.get(colour((y * width + x) * channels))
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3, 0, 0, 0], 8)
  return Buffer.concat([
    SIGNATURE, chunk('IHDR', header), chunk('PLTE', Buffer.from(palette)), chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}
