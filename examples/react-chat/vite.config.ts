import { defaultClientConditions, defineConfig } from 'vite'

// This repository uses the client library's sources; an app of your own needs no configuration.
export default defineConfig({
  resolve: { conditions: ['oracle-runtime-source', ...defaultClientConditions] },
  build: { target: 'es2022', rolldownOptions: { input: ['index.html', 'hooks.html'] } },
})
