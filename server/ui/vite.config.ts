import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// Addresses in the page are relative: the server says in <base> where it is mounted.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    target: 'es2022',
    reportCompressedSize: false,
  },
  server: { proxy: { '/api': 'http://127.0.0.1:7433' } },
})
