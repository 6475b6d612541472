import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** What a run leaves for a second one, which runs only the files that failed. */
interface Leftover {
  readonly failed: readonly string[]
  /** The results of the other files. */
  readonly others: Counts
}

interface Counts {
  passed: number
  failed: number
  skipped: number
  pending: number
}

/**
 * Ends the run with one line that a script can read: `N passed, N failed`. Where `TEST_LEFTOVER` names a file, the run writes
 * there which files failed; a second run that finds such a file counts the results of the first one's other files, too.
 */
export default class ClosingLine implements Reporter {
  readonly #path = process.env.TEST_LEFTOVER

  constructor() {
    // A test may run the tests of another project, and those leave nothing here.
    delete process.env.TEST_LEFTOVER
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]) {
    const path = this.#path
    const first = path && existsSync(path) ? readLeftover(path) : undefined
    const ofFailed = noCounts()
    const ofOthers = first?.others ?? noCounts()
    const second: string[] = []
    const counted = modules.map((module) => ({
      file: module.relativeModuleId,
      counts: countsOf(module),
    }))
    // A file may stand in two projects; a second run then runs it in both.
    const failed = new Set(counted.flatMap(({ file, counts }) => (counts.failed > 0 ? file : [])))
    const red: string[] = []
    for (const module of modules)
      for (const test of module.children.allTests()) {
        const told = `${module.relativeModuleId}: ${test.fullName}${whyOf(test)}`
        if (test.diagnostic()?.flaky) second.push(told)
        if (test.result().state === 'failed') red.push(told)
      }
    const [ofFiles, ofNoFile] = errorsOf(errors)
    for (const [file, error] of ofFiles) {
      failed.add(file)
      red.push(`${file}: outside of every test (${error})`)
    }
    for (const error of ofNoFile) say(`Outside of every file: ${error}`)
    for (const { file, counts } of counted) addTo(failed.has(file) ? ofFailed : ofOthers, counts)
    ofFailed.failed += errors.length
    // An error that names no file leaves nothing that could run once more.
    if (path && !first && ofNoFile.length === 0)
      writeFileSync(path, JSON.stringify({ failed: [...failed], others: ofOthers }))
    for (const file of first ? [] : failed) say(`Failed: ${file}`)
    for (const test of red.slice(0, 50)) say(`Red: ${test}`)
    for (const file of first?.failed ?? []) say(`Failed at first, so look into this file: ${file}`)
    for (const name of second) say(`Passed at the second try only, so look into this test: ${name}`)
    addTo(ofFailed, ofOthers)
    const skipped = ofFailed.skipped + ofFailed.pending
    const line = `${ofFailed.passed} passed, ${ofFailed.failed} failed${skipped ? `, ${skipped} skipped` : ''}`
    process.on('exit', () => say(line))
  }
}

/** What errors outside of every test say: those of files, and those that name no file. */
function errorsOf(errors: readonly unknown[]): [ofFiles: [string, string][], ofNoFile: string[]] {
  const ofFiles: [string, string][] = []
  const ofNoFile: string[] = []
  for (const error of errors) {
    const { VITEST_TEST_PATH: path, message = error } = Object(error) as Record<string, unknown>
    const said = String(message).slice(0, 500)
    if (typeof path === 'string') ofFiles.push([relative(process.cwd(), path), said])
    else ofNoFile.push(said)
  }
  return [ofFiles, ofNoFile]
}

/** The first words of what a test failed by, at its last try or at one before. */
function whyOf(test: TestCase): string {
  const said = test.result().errors?.map(({ message }) => /^.{0,300}/.exec(String(message))?.[0])
  return said?.length ? ` (${said.join('; then ')})` : ''
}

const say = (line: string) => process.stdout.write(`\n${line}\n`)

const noCounts = (): Counts => ({ passed: 0, failed: 0, skipped: 0, pending: 0 })

function countsOf(module: TestModule): Counts {
  const counts = noCounts()
  for (const test of module.children.allTests()) counts[test.result().state]++
  // A file may fail without a test that does, when it cannot be read for example.
  if (module.state() === 'failed' && counts.failed === 0) counts.failed++
  return counts
}

function addTo(sum: Counts, more: Counts): void {
  sum.passed += more.passed
  sum.failed += more.failed
  sum.skipped += more.skipped
  sum.pending += more.pending
}

function readLeftover(path: string): Leftover | undefined {
  const text = readFileSync(path, 'utf8')
  return text ? JSON.parse(text) : undefined
}
