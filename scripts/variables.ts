import { describeVariables, type Variable } from '../core/manifest/env.ts'
import { kernelEnv } from '../core/manifest/kernel-env.ts'
import { bundledPlugins } from '../plugins/index.ts'
import { models } from '../plugins/models.ts'

/** Every variable of the kernel and of the bundled plugins. */
export function allVariables(): Variable[] {
  return [
    ...describeVariables('kernel', kernelEnv),
    ...bundledPlugins.flatMap(({ name, definition }) =>
      describeVariables(name, definition.env ?? {}),
    ),
  ]
}

/** The variables of the providers of models, which are asked for only where MODEL names the provider. */
export function providerVariables(): Variable[] {
  return models.flatMap(({ name, definition }) => describeVariables(name, definition.env ?? {}))
}
