export type Theme = '' | 'light' | 'dark'

export const theme = $state({ now: (document.documentElement.dataset.theme ?? '') as Theme })

/** Sets the theme; empty is that of the system. public/theme.js reads it at the next load. */
export function setTheme(t: Theme) {
  theme.now = t
  if (t) document.documentElement.dataset.theme = t
  else delete document.documentElement.dataset.theme
  try {
    localStorage.setItem('perdure.theme', t)
  } catch {
    // without storage it counts until the page is left
  }
}
