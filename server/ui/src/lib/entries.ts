import type { Entry } from './types'

/** One line of the compact history: all entries of an operation, or an entry that has none. */
export interface Group {
  seq: number
  name: string
  kind: string // of the last entry
  at: string
  took?: number
  entries: Entry[]
  error?: string
}

export function groupsOf(entries: Entry[]): Group[] {
  const out: Group[] = []
  const byName = new Map<string, Group>()
  for (const e of entries) {
    let g = e.operation ? byName.get(e.operation) : undefined
    if (!g) {
      g = { seq: e.seq, name: e.operation ?? '', kind: e.kind, at: e.at, entries: [] }
      out.push(g)
      if (e.operation) byName.set(e.operation, g)
    }
    g.entries.push(e)
    g.kind = e.kind
    g.error = e.error?.message ?? (isFailure(e) ? e.reason : undefined)
    if (e.took_ms !== undefined) g.took = (g.took ?? 0) + e.took_ms
  }
  return out
}

export const isFailure = (e: Entry) => /Failed|TimedOut|Cancelled|DeadLettered/.test(e.kind)

/** The kind of an entry as words: StepCompleted is "step completed". */
export const kindWords = (kind: string) => kind.replace(/(?!^)([A-Z])/g, ' $1').toLowerCase()
