const key = 'perdure.payloads'

/** Whether payloads are hidden until their reader asks for one. It is kept in the browser. */
export const payloads = $state({ hidden: stored() })

function stored(): boolean {
  try {
    return localStorage.getItem(key) === 'hidden'
  } catch {
    return false
  }
}

export function hidePayloads(on: boolean) {
  payloads.hidden = on
  try {
    localStorage.setItem(key, on ? 'hidden' : '')
  } catch {
    // without storage it counts until the page is left
  }
}
