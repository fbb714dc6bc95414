import { vitePreprocess } from '@sveltejs/vite-plugin-svelte'

export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    // Of itself Svelte hashes the path, and another folder would make other files.
    cssHash: ({ hash, name, css }) => `s-${hash(name + css)}`,
  },
}
