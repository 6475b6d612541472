import type { Reporter, TestModule } from 'vitest/node'

/** Ends the run with one line that a script can read: `N passed, N failed`. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]) {
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 }
    const second: string[] = []
    for (const module of modules) {
      const tests = [...module.children.allTests()]
      for (const test of tests) {
        count[test.result().state]++
        if (test.diagnostic()?.flaky) second.push(`${module.relativeModuleId}: ${test.fullName}`)
      }
      if (module.state() === 'failed' && tests.every((test) => test.result().state !== 'failed'))
        count.failed++
    }
    for (const name of second)
      process.stdout.write(`\nPassed at the second try only, so look into this test: ${name}\n`)
    const skipped = count.skipped + count.pending
    const line = `${count.passed} passed, ${count.failed} failed${skipped ? `, ${skipped} skipped` : ''}`
    process.on('exit', () => process.stdout.write(`\n${line}\n`))
  }
}
