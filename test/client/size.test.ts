import { expect, it } from 'vitest'
import {
  addedBy,
  coreBudget,
  laterBudget,
  liveAgentBudget,
  liveAgentSize,
  noticesBudget,
  sizeOf,
} from '../../bench/client/size.ts'

it('the core stays within its budget, and brings no peer along', async () => {
  const { gzip, later, seldom, tokens } = await sizeOf('index')
  expect(gzip).toBeGreaterThan(4096)
  expect(gzip).toBeLessThanOrEqual(coreBudget)
  expect(later - seldom - tokens).toBeLessThanOrEqual(laterBudget.chat)
  expect(tokens).toBeGreaterThan(256)
  expect(tokens).toBeLessThanOrEqual(laterBudget.tokens)
  expect(seldom).toBeGreaterThan(1024)
  expect(seldom).toBeLessThanOrEqual(laterBudget.seldom)
}, 60_000)

it('what shows notices stays within its own', async () => {
  const added = await addedBy('notices')
  expect(added).toBeGreaterThan(512)
  expect(added).toBeLessThanOrEqual(noticesBudget)
}, 60_000)

it('what calls stays within its own', async () => {
  const added = await liveAgentSize()
  expect(added).toBeGreaterThan(2_048)
  expect(added).toBeLessThanOrEqual(liveAgentBudget)
}, 60_000)
