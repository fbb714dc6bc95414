import { now } from './now.svelte'

// Whether the server answers.

export const link = $state({ up: true, since: 0 })

export function lost() {
  if (link.up) link.since = now.ms
  link.up = false
}

export function reached() {
  link.up = true
}
