import { defaultClientConditions, defineConfig } from 'vite'

// In this repository the library's sources; in an app of your own you need no configuration.
export default defineConfig({
  resolve: { conditions: ['oracle-runtime-source', ...defaultClientConditions] },
  build: { target: 'es2022' },
})
