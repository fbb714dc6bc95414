import { get, request, whenUnknown } from './api'
import { reconnect } from './live.svelte'
import type { Caller } from './types'

/** Who the server takes the reader for. */
export const session = $state<{ caller?: Caller; wanted: boolean }>({ wanted: false })

whenUnknown.ask = () => {
  session.wanted = true
  session.caller = undefined
}

export async function whoAmI() {
  session.caller = await get<Caller>('session')
}

export async function login(token: string) {
  session.caller = await request<Caller>('POST', 'session', { token })
  session.caller.session = true
  session.wanted = false
  reconnect()
}

export async function logout() {
  await request('DELETE', 'session')
  whenUnknown.ask()
}

export const mayAct = () => session.caller?.role === 'operator' || session.caller?.role === 'admin'

/** Why an action is not to be had, or empty if it is. */
export function whyNot() {
  if (!session.caller) return 'waits until the server says who you are'
  return mayAct() ? '' : 'needs the role operator'
}
