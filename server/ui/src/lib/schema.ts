/** What a form needs of a JSON Schema. */
export interface Schema {
  type?: string | string[]
  title?: string
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  enum?: unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
}

export type Field = 'text' | 'number' | 'flag' | 'choice' | 'json'

export function fieldOf(s: Schema): Field {
  if (s.enum) return 'choice'
  switch (s.type) {
    case 'string':
      return 'text'
    case 'integer':
    case 'number':
      return 'number'
    case 'boolean':
      return 'flag'
  }
  return 'json'
}

export const isObject = (s: Schema | undefined): s is Schema & { properties: Record<string, Schema> } =>
  !!s?.properties && Object.keys(s.properties).length > 0

/** A value to begin with. */
export function example(s: Schema | undefined): unknown {
  if (!s) return null
  if (s.default !== undefined) return s.default
  if (s.enum) return s.enum[0]
  if (isObject(s)) return Object.fromEntries(Object.entries(s.properties).map(([n, p]) => [n, example(p)]))
  return { string: '', integer: s.minimum ?? 0, number: s.minimum ?? 0, boolean: false, array: [], object: {} }[String(s.type)] ?? null
}
