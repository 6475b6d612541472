import type { Capability } from '../../plugin.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'

/** What the plugins of an app say of themselves, but for those that stay silent. */
export const capabilitiesOf = (records: readonly PluginRecord[]): Capability[] =>
  records
    .filter(({ visibility, isAdded }) => visibility !== 'silent' && !isAdded)
    .map((record) => {
      const { name, definition } = record
      const { summary, whenToUse = [], examples = [], tags = [], category } = definition
      return {
        name,
        summary,
        isOn: isActive(record),
        whenToUse,
        examples,
        tags,
        ...(category && { category }),
      }
    })
