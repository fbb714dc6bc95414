/** Icons of 16 by 16, as paths: fonts differ in which signs they have. */
export const icons = {
  check: 'M3 8.5 6.5 12 13 4.5',
  cross: 'M4 4l8 8M12 4l-8 8',
  play: 'M5 3.5v9l7-4.5z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  wait: 'M4 2.5h8M4 13.5h8M5 2.5c0 3 3 4 3 5.5s-3 2.5-3 5.5M11 2.5c0 3-3 4-3 5.5s3 2.5 3 5.5',
  clock: 'M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2 1.3',
  undo: 'M6 3.5 3 6.5l3 3M3.5 6.5H9a3.3 3.3 0 0 1 0 6.6H7',
  stop: 'M8 2.5a5.5 5.5 0 1 0 .01 0M4.2 4.2l7.6 7.6',
  alert: 'M8 2.5 14 13H2zM8 6.5v3M8 11.2v.1',
  again: 'M12.5 5.5A5 5 0 1 0 13 8.5M12.8 2.5v3.2H9.6',
  skip: 'M3 4l5 4-5 4zM12 4v8',
  dot: 'M8 7.5a.5.5 0 1 0 .01 0',
  copy: 'M6 6h7v7.5H6zM10 6V2.5H3V10h3',
  search: 'M7 2.5a4.5 4.5 0 1 0 .01 0M10.3 10.3l3.2 3.2',
  sun: 'M8 5a3 3 0 1 0 .01 0M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7',
  moon: 'M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5z',
  half: 'M8 2.5a5.5 5.5 0 1 0 .01 0M8 2.5v11M8 5h4M8 8h5.3M8 11h4',
  keys: 'M2 4h12v8H2zM4.5 6.5h.1M7 6.5h.1M9.5 6.5h.1M12 6.5h-.1M5 9.5h6',
  open: 'M4 6.5 8 10.5l4-4',
  closed: 'M6.5 4l4 4-4 4',
} as const

export type IconName = keyof typeof icons
