// Cron expressions as words, for the forms that people write. Others stay as they are: the next
// times say the rest.

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']
const short = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

const named: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

/** A cron expression as words; empty for one that has no short ones. */
export function cronWords(cron: string): string {
  let fields = (named[cron.trim().toLowerCase()] ?? cron).trim().split(/\s+/)
  if (fields.length === 6 && fields[0] === '0') fields = fields.slice(1)
  if (fields.length !== 5) return ''
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string]
  if (month !== '*') return ''
  const on = dayWords(day, weekday)
  const at = timeWords(minute, hour)
  if (on === undefined || !at) return ''
  if (/^\d+$/.test(hour)) return `${on || 'every day'} at ${at}`
  return on ? `${at}, ${on}` : at
}

function timeWords(minute: string, hour: string): string {
  const step = /^\*\/(\d+)$/
  const m = /^\d+$/.test(minute) ? Number(minute) : undefined
  if (m !== undefined && /^\d+$/.test(hour)) return `${pad(Number(hour))}:${pad(m)}`
  if (hour === '*') {
    if (minute === '*' || minute === '*/1') return 'every minute'
    const every = step.exec(minute)
    if (every && 60 % Number(every[1]) === 0) return `every ${every[1]} minutes`
    if (m !== undefined) return m === 0 ? 'every hour' : `every hour, ${m} min past`
  }
  const hours = step.exec(hour)
  if (hours && m !== undefined && 24 % Number(hours[1]) === 0) return `every ${hours[1]} hours, ${m} min past`
  return ''
}

/** The days as words; empty for every day, and undefined where there are no short words. */
function dayWords(day: string, weekday: string): string | undefined {
  if (day === '*' && (weekday === '*' || weekday === '?')) return ''
  if (weekday === '*' || weekday === '?') return /^\d+$/.test(day) ? `on day ${day} of each month` : undefined
  if (day !== '*' && day !== '?') return undefined
  const range = weekday.split('-').map(numberOf)
  if (range.length === 2) return range[0] === undefined || range[1] === undefined ? undefined : `${days[range[0]]} to ${days[range[1]]}`
  const all = weekday.split(',').map(numberOf)
  return all.some((d) => d === undefined) ? undefined : 'on ' + all.map((d) => days[d!]).join(', ')
}

function numberOf(text: string): number | undefined {
  if (/^[0-7]$/.test(text)) return Number(text)
  const i = short.indexOf(text.toLowerCase())
  return i < 0 ? undefined : i
}

const pad = (n: number) => String(n).padStart(2, '0')
