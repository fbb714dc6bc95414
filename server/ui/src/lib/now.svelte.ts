/** The time of the server, once a second. */
export const now = $state({ ms: Date.now() })

let ahead = 0 // milliseconds of the server's clock before the browser's

/** Takes the time of an answer. It is in seconds, so what is less than two of them is no difference. */
export function heard(date: string | null) {
  const ms = date ? Date.parse(date) - Date.now() : NaN
  if (Number.isNaN(ms)) return
  const was = ahead
  ahead = Math.abs(ms) < 2000 ? 0 : ms
  if (Math.abs(ahead - was) > 2000) now.ms = Date.now() + ahead
}

setInterval(() => {
  if (!document.hidden) now.ms = Date.now() + ahead
}, 1000)
