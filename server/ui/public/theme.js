// It runs before the page is drawn, so that no wrong theme is seen.
try {
  const theme = localStorage.getItem('perdure.theme')
  if (theme) document.documentElement.dataset.theme = theme
} catch {
  // without storage, the theme is that of the system
}
