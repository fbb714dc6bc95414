/** The dialog of the shell that is open; empty for none. */
export const dialogs = $state<{ open: '' | 'palette' | 'help' }>({ open: '' })
