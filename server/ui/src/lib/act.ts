import type { BatchSpec } from './types'

/** A request that changes something, and the command that does the same. */
export interface Act {
  method: 'POST' | 'PUT' | 'DELETE'
  path: string
  body?: unknown
  /** The words of the command; none if there is no such command. */
  cli?: string[]
  /** Where the request has the reason: "order" is the order of a batch. Without it, the action has
   * none. */
  reason?: 'body' | 'query' | 'order'
  /** The flag of the command for the reason, if it is another one than --reason. */
  flag?: string
}

/** What a dialog asks before an act. */
export interface Ask {
  title: string
  about: string
  /** The button that does it. */
  verb: string
  act: Act
  danger?: boolean
  /** Where the reason is kept. */
  keeps?: string
}

/** An act with its reason in its place. */
export function withReason(act: Act, reason: string): Act {
  if (!act.reason || !reason) return act
  const cli = act.cli && [...act.cli, act.flag ?? '--reason', reason]
  if (act.reason === 'order') {
    const body = act.body as BatchSpec
    return { ...act, cli, body: { ...body, order: { ...body.order, reason } } }
  }
  if (act.reason === 'body') return { ...act, cli, body: { ...(act.body as object), reason } }
  return { ...act, cli, path: `${act.path}${act.path.includes('?') ? '&' : '?'}reason=${encodeURIComponent(reason)}` }
}
