// Whether the server answers.

export const link = $state({ up: true, since: 0 })

export function lost() {
  if (link.up) link.since = Date.now()
  link.up = false
}

export function reached() {
  link.up = true
}
