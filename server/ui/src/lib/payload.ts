/** What a server puts in place of a value that the reader must not see. */
export const hidden = '[redacted]'

/** The bytes of a payload that is no JSON; undefined for one that is. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const fields = Object.entries(value)
  if (fields.length !== 1 || fields[0]![0] !== 'base64' || typeof fields[0]![1] !== 'string') return undefined
  try {
    return Uint8Array.from(atob(fields[0]![1]), (c) => c.charCodeAt(0))
  } catch {
    return undefined
  }
}

const types: [string, number[]][] = [
  ['PNG image', [0x89, 0x50, 0x4e, 0x47]],
  ['JPEG image', [0xff, 0xd8, 0xff]],
  ['GIF image', [0x47, 0x49, 0x46, 0x38]],
  ['PDF document', [0x25, 0x50, 0x44, 0x46]],
  ['gzip data', [0x1f, 0x8b]],
  ['ZIP archive', [0x50, 0x4b, 0x03, 0x04]],
  ['compressed or encrypted, and this server has not the key', [0x00, 0x70, 0x64]],
]

/** What bytes are, as far as their beginning says. */
export function typeOf(bytes: Uint8Array): string {
  const known = types.find(([, start]) => start.every((b, i) => bytes[i] === b))
  if (known) return known[0]
  const isText = bytes.every((b) => b >= 0x20 && b < 0x7f || b === 9 || b === 10 || b === 13)
  return isText && bytes.length ? 'text, no JSON' : 'binary data'
}

/** Bytes as lines of an offset, 16 bytes and their characters. */
export function hexOf(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const some = [...bytes.subarray(at, at + 16)]
    const hex = some.map((b) => b.toString(16).padStart(2, '0')).join(' ')
    const text = some.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`)
  }
  return lines.join('\n')
}

/** The path of a field below a path, such as $.lines[0]["a name"]. */
export function below(path: string, name: string, isList: boolean): string {
  if (isList) return `${path}[${name}]`
  return /^[A-Za-z_]\w*$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`
}

/** Whether a field or anything in it has a text, in upper or lower case. */
export const has = (name: string, value: unknown, text: string) =>
  (JSON.stringify(name) + JSON.stringify(value)).toLowerCase().includes(text.toLowerCase())
