import type { Entry } from './types'

const isEntry = (e: unknown): e is Entry =>
  typeof e === 'object' && e !== null && typeof (e as Entry).seq === 'number' &&
  typeof (e as Entry).kind === 'string' && !Number.isNaN(Date.parse((e as Entry).at)) &&
  typeof (e as Entry).pattern === 'string'

/** The values of a text: of a JSON list, of a page of the API, or of JSON lines. */
function valuesIn(text: string): unknown[] {
  try {
    const whole = JSON.parse(text)
    if (Array.isArray(whole)) return whole
    return Array.isArray(whole?.items) ? whole.items : [whole]
  } catch {
    return text.split('\n').flatMap((line, i) => {
      if (!line.trim()) return []
      try {
        return [JSON.parse(line)]
      } catch {
        throw new Error(`Line ${i + 1} is not JSON.`)
      }
    })
  }
}

/** The entries of a history in a file, in order. It throws an error that says what is wrong. */
export function entriesIn(text: string): Entry[] {
  const all = valuesIn(text)
  if (!all.length) throw new Error('The file is empty.')
  const wrong = all.findIndex((e) => !isEntry(e))
  if (wrong >= 0) throw new Error(`Value ${wrong + 1} is no entry of a history: it lacks seq, kind, pattern or at.`)
  const entries = (all as Entry[]).toSorted((a, b) => a.seq - b.seq)
  const twice = entries.find((e, i) => e.seq === entries[i - 1]?.seq)
  if (twice) throw new Error(`Entry ${twice.seq} is there twice: the file has more than one history.`)
  return entries
}
