#!/usr/bin/env node
// What `oracle-runtime` runs: the built command line of the package, or its source in the checkout.
import { existsSync } from 'node:fs'
import { register } from 'node:module'

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 13)) {
  console.error(`This is Node ${process.versions.node}; the oracle runtime needs 22.13 or newer.`)
  process.exit(1)
}
if (!process.features.typescript) register('./strip-types.js', import.meta.url)
const source = new URL('./main.ts', import.meta.url)
const built = new URL('../dist/cli/main.js', import.meta.url)
await import((existsSync(source) ? source : built).href)
