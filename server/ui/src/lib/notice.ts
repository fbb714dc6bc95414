/** A live event: what an engine does. The document of the API does not describe it. */
export interface Notice {
  kind: string
  run_id: string
  workflow: string
}
