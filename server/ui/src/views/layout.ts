// A small layered layout: every edge leads from a layer to a later one, except edges of circles.

export interface Arrow {
  from: string
  to: string
  label?: string
}

export interface Box {
  name: string
  x: number // of its left upper corner
  y: number
  layer: number
}

export interface Line extends Arrow {
  points: [number, number][]
  back: boolean // it closes a circle
}

export interface Drawing {
  boxes: Map<string, Box>
  lines: Line[]
  width: number
  height: number
}

export const box = { width: 168, height: 66 }
const gap = { along: 56, across: 20, around: 28 }
/** More bends than that would cost more than they show: then lines are straight. */
const mostBends = 4000

/** Lays nodes out from left to right, or from top to bottom. */
export function layout(names: string[], all: Arrow[], down: boolean): Drawing {
  const known = new Set(names)
  const arrows = all.filter((a) => known.has(a.from) && known.has(a.to) && a.from !== a.to)
  const forward = withoutCircles(names, arrows)
  const layerOf = longestPaths(names, forward)
  const { rows, chains } = withBends(names, forward, layerOf)
  order(rows, chains)
  return place(names, arrows, forward, rows, chains, layerOf, down)
}

/** The arrows of a graph without circles: those that close one are turned. */
function withoutCircles(names: string[], arrows: Arrow[]): Map<Arrow, [string, string]> {
  const next = group(arrows, (a) => a.from)
  const state = new Map<string, 'open' | 'over'>()
  const out = new Map<Arrow, [string, string]>()
  for (const start of names) {
    if (state.has(start)) continue
    state.set(start, 'open')
    const stack = [{ name: start, at: 0 }]
    while (stack.length) {
      const top = stack[stack.length - 1]!
      const a = next.get(top.name)?.[top.at++]
      if (!a) {
        state.set(top.name, 'over')
        stack.pop()
        continue
      }
      const turned = state.get(a.to) === 'open'
      out.set(a, turned ? [a.to, a.from] : [a.from, a.to])
      if (!state.has(a.to)) {
        state.set(a.to, 'open')
        stack.push({ name: a.to, at: 0 })
      }
    }
  }
  return out
}

function longestPaths(names: string[], forward: Map<Arrow, [string, string]>): Map<string, number> {
  const layer = new Map(names.map((n) => [n, 0]))
  const left = new Map(names.map((n) => [n, 0]))
  const next = group([...forward.values()], ([from]) => from)
  for (const [, to] of forward.values()) left.set(to, left.get(to)! + 1)
  const ready = names.filter((n) => left.get(n) === 0)
  for (let i = 0; i < ready.length; i++) {
    for (const [from, to] of next.get(ready[i]!) ?? []) {
      layer.set(to, Math.max(layer.get(to)!, layer.get(from)! + 1))
      left.set(to, left.get(to)! - 1)
      if (left.get(to) === 0) ready.push(to)
    }
  }
  return layer
}

/** Rows of names, with bends where an arrow crosses a layer. A chain is an arrow with its bends. */
function withBends(names: string[], forward: Map<Arrow, [string, string]>, layerOf: Map<string, number>) {
  const rows: string[][] = []
  for (const n of names) (rows[layerOf.get(n)!] ??= []).push(n)
  const chains = new Map<Arrow, string[]>()
  let bends = 0
  for (const [a, [from, to]] of forward) {
    const chain = [from]
    for (let l = layerOf.get(from)! + 1; l < layerOf.get(to)!; l++) {
      if (bends++ > mostBends) break
      const bend = `\n${chains.size} ${l}`
      ;(rows[l] ??= []).push(bend)
      chain.push(bend)
    }
    chains.set(a, [...chain, to])
  }
  return { rows, chains }
}

/** Sorts each row by the places of its neighbours, forth and back, so that few lines cross. */
function order(rows: string[][], chains: Map<Arrow, string[]>) {
  const links: [string, string][] = []
  for (const chain of chains.values()) chain.slice(1).forEach((to, i) => links.push([chain[i]!, to]))
  const before = group(links, ([, to]) => to)
  const after = group(links, ([from]) => from)
  const at = new Map<string, number>()
  const note = (row: string[]) => row.forEach((n, i) => at.set(n, (i + 0.5) / row.length))
  rows.forEach(note)
  for (let sweep = 0; sweep < 6; sweep++) {
    const isDown = sweep % 2 === 0
    for (const row of isDown ? rows : [...rows].reverse()) {
      const middle = new Map(
        row.map((n) => {
          const near = isDown ? (before.get(n) ?? []).map(([from]) => from) : (after.get(n) ?? []).map(([, to]) => to)
          return [n, near.length ? near.reduce((sum, m) => sum + at.get(m)!, 0) / near.length : at.get(n)!]
        }),
      )
      row.sort((a, b) => middle.get(a)! - middle.get(b)!)
      note(row)
    }
  }
}

function place(
  names: string[],
  arrows: Arrow[],
  forward: Map<Arrow, [string, string]>,
  rows: string[][],
  chains: Map<Arrow, string[]>,
  layerOf: Map<string, number>,
  down: boolean,
): Drawing {
  const along = (down ? box.height : box.width) + gap.along
  const across = (down ? box.width : box.height) + gap.across
  const bend = gap.across
  const sizes = rows.map((row) => row.reduce((sum, n) => sum + (isBend(n) ? bend : across), 0))
  const most = Math.max(0, ...sizes)
  const spots = new Map<string, [number, number]>() // the middle, along and across
  rows.forEach((row, l) => {
    let at = (most - sizes[l]!) / 2
    for (const n of row) {
      const size = isBend(n) ? bend : across
      spots.set(n, [l * along, at + size / 2])
      at += size
    }
  })
  const half = (down ? box.height : box.width) / 2
  const point = (a: number, c: number): [number, number] => {
    const [x, y] = [a + half + gap.around, c + gap.around]
    return down ? [y, x] : [x, y]
  }
  const boxes = new Map(
    names.map((name) => {
      const [x, y] = point(...spots.get(name)!)
      return [name, { name, x: x - box.width / 2, y: y - box.height / 2, layer: layerOf.get(name)! }]
    }),
  )
  const lines = arrows.map((a): Line => {
    const chain = chains.get(a)!
    const back = forward.get(a)![0] !== a.from
    const points = chain.flatMap((n, i): [number, number][] => {
      const [x, y] = spots.get(n)!
      if (isBend(n)) return [point(x - half, y), point(x + half, y)]
      return [point(i === 0 ? x + half : x - half, y + (back ? 8 : 0))]
    })
    return { ...a, points: back ? points.reverse() : points, back }
  })
  const length = Math.max(0, rows.length * along - gap.along) + 2 * gap.around
  const breadth = most + 2 * gap.around
  return { boxes, lines, width: down ? breadth : length, height: down ? length : breadth }
}

const isBend = (name: string) => name.startsWith('\n')

function group<T>(all: T[], key: (t: T) => string): Map<string, T[]> {
  const out = new Map<string, T[]>()
  for (const t of all) {
    const k = key(t)
    const of = out.get(k)
    if (of) of.push(t)
    else out.set(k, [t])
  }
  return out
}

/** A line as a path: curves between its points. */
export function curve(points: [number, number][], down: boolean): string {
  let text = `M${points[0]![0]} ${points[0]![1]}`
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1]!
    const [x, y] = points[i]!
    text += down
      ? `C${x0} ${(y0 + y) / 2} ${x} ${(y0 + y) / 2} ${x} ${y}`
      : `C${(x0 + x) / 2} ${y0} ${(x0 + x) / 2} ${y} ${x} ${y}`
  }
  return text
}
