/** The modules that the first caller loads, in a file of their own, so that no start of the server pays for the arithmetic of designs. */
export { Beacons } from './beacons/beacons.ts'
export { Designs } from './design/designs.ts'
export { csvOf } from './reports/csv.ts'
export { explain, summarize } from './reports/explain.ts'
export { Selections } from './selection/selections.ts'
