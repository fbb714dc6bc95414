/** The time, once a second. */
export const now = $state({ ms: Date.now() })

setInterval(() => {
  if (!document.hidden) now.ms = Date.now()
}, 1000)
