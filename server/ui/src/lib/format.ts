/** A duration for people: at most two units. */
export function span(ms: number): string {
  const past = Math.max(0, ms)
  if (past < 1) return '0 ms'
  if (past < 1000) return `${Math.round(past)} ms`
  if (past < 59_950) return `${(past / 1000).toFixed(past < 9950 && past % 1000 ? 1 : 0)} s`
  const units: [string, number][] = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ]
  const i = units.findIndex(([, size]) => past >= size)
  const [big, size] = units[i]!
  const small = units[i + 1]
  const whole = Math.floor(past / size)
  const rest = small ? Math.floor((past % size) / small[1]) : 0
  return rest && small ? `${whole} ${big} ${rest} ${small[0]}` : `${whole} ${big}`
}

/** How far a time is from now, such as "3 min ago" or "in 2 h". */
export function distance(time: string, now: number): string {
  const ms = Date.parse(time) - now
  if (Math.abs(ms) < 2000) return 'now'
  return ms > 0 ? `in ${rough(ms)}` : `${rough(-ms)} ago`
}

function rough(ms: number): string {
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h`
  return `${Math.floor(ms / 86_400_000)} d`
}

// A formatter is slow to make: lists of times share these.
const fullFormat = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
})
const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hour12: false })

/** A time of the reader, with its zone. */
export const full = (time: string) => fullFormat.format(new Date(time))

export const clock = (time: string) => {
  const d = new Date(time)
  return clockFormat.format(d) + '.' + String(d.getMilliseconds()).padStart(3, '0')
}

export const json = (v: unknown) => JSON.stringify(v, null, 2) ?? 'null'

/** Quotes a text for a shell. */
export const quote = (s: string) => (/^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`)

/** A number of bytes for people. */
export function bytes(n: number): string {
  if (n < 1024) return `${n} bytes`
  const units = ['KB', 'MB', 'GB', 'TB']
  let i = -1
  do {
    n /= 1024
    i++
  } while (n >= 1023.5 && i < units.length - 1)
  return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[i]}`
}
