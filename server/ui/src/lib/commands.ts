import { api, root } from './api'
import { quote } from './format'
import { session } from './session.svelte'

/** The command line that does the same at this server. */
export function cliOf(words: string[]): string {
  const at = root.href.replace(/\/$/, '')
  return ['perdure', ...words, '--store', at].map(quote).join(' ')
}

/** The curl that does the same at this server. */
export function curlOf(method: string, path: string, body?: unknown): string {
  const words = ['curl', '-s']
  if (method !== 'GET' && !(method === 'POST' && body !== undefined)) words.push('-X', method)
  const all = words.join(' ')
  const token = session.caller?.session ? ' -H "Authorization: Bearer $TOKEN"' : ''
  const data = body === undefined ? '' : ` -H 'Content-Type: application/json' -d ${quote(JSON.stringify(body))}`
  return `${all}${token}${data} ${quote(api(path))}`
}
