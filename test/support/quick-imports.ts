import { quickenImports } from '../../prebuilt/checkout.ts'

// Workers, and the servers that tests start, import this first: then they import what `npm start` imports, for a quarter less of CPU.
await quickenImports()
