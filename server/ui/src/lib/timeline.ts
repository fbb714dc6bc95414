import type { Execution } from './types'

export interface Bar {
  name: string
  status: string
  from: number
  to: number // now, if it goes on
  attempts: number
  error?: string
  isWait: boolean
}

/** The steps and waits of a run, in the order of their beginnings. */
export function barsOf(run: Execution, now: number): Bar[] {
  const end = run.ended ? Date.parse(run.ended) : now
  const bars: Bar[] = []
  for (const s of run.steps ?? []) {
    if (!s.started) continue
    bars.push({
      name: s.path,
      status: s.status,
      from: Date.parse(s.started),
      to: s.ended ? Date.parse(s.ended) : end,
      attempts: s.attempts,
      error: s.error?.message,
      isWait: false,
    })
  }
  for (const w of run.waits ?? []) {
    bars.push({
      name: w.path.startsWith('Approve:') ? w.path.replace('Approve:', 'approval ') : `${w.kind} ${w.path}`,
      status: 'WAITING',
      from: Date.parse(w.since),
      to: end,
      attempts: 0,
      isWait: true,
    })
  }
  return bars.sort((a, b) => a.from - b.from)
}

/** A stretch of time and its place: shares of the whole width. */
interface Stretch {
  from: number
  to: number
  left: number
  width: number
  idle: boolean
}

/** How wide an idle stretch is, if it is folded: a share of the busy time. */
const foldedShare = 0.06

/** A scale on which the time that has no step is folded. */
export class Scale {
  readonly stretches: Stretch[] = []

  constructor(bars: Bar[], from: number, to: number, folds: boolean) {
    const end = Math.max(to, from + 1)
    const busy = join(bars.filter((b) => !b.isWait).map((b) => [b.from, b.to] as const))
    const total = busy.reduce((sum, [a, b]) => sum + (b - a), 0) || end - from
    const longest = Math.max(total * 0.25, 1000) // an idle time that stays as it is
    const parts: { from: number; to: number; size: number; idle: boolean }[] = []
    let at = from
    const add = (until: number, idle: boolean) => {
      if (until <= at) return
      const size = folds && busy.length && idle && until - at > longest ? Math.max(total, 1) * foldedShare : until - at
      parts.push({ from: at, to: until, size, idle: idle && size < until - at })
      at = until
    }
    for (const [a, b] of busy) {
      add(Math.min(a, end), true)
      add(Math.min(b, end), false)
    }
    add(end, true)
    const all = parts.reduce((sum, p) => sum + p.size, 0)
    let left = 0
    for (const p of parts) {
      this.stretches.push({ from: p.from, to: p.to, left: left / all, width: p.size / all, idle: p.idle })
      left += p.size
    }
  }

  /** The place of a time, as a share of the width. */
  at(time: number): number {
    for (const s of this.stretches) {
      if (time <= s.to) return s.left + (s.width * Math.max(0, time - s.from)) / (s.to - s.from)
    }
    return 1
  }
}

function join(spans: (readonly [number, number])[]): [number, number][] {
  const out: [number, number][] = []
  for (const [a, b] of [...spans].sort((x, y) => x[0] - y[0])) {
    const last = out.at(-1)
    if (last && a <= last[1]) last[1] = Math.max(last[1], b)
    else out.push([a, b])
  }
  return out
}
