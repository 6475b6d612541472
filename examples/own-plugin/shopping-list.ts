import { created, definePlugin, RuntimeError } from 'oracle-runtime'
import { z } from 'zod'

interface ItemsTable {
  name: string
  amount: number
}

const item = z.object({
  name: z.string().trim().min(1).max(80).describe('What to buy, e.g. "rice"'),
  amount: z.number().int().min(1).max(1000).default(1).describe('How many'),
})

/** A plugin of your own, with a variable, a table, tools for the agent and routes for other callers. */
export default definePlugin({
  name: 'shopping-list',
  version: '1.0.0',
  summary: 'Keeps a shopping list.',
  whenToUse: ['The user wants to buy something, or asks what is on the list.'],
  examples: ['Put three bags of rice on my list.'],
  stability: 'stable',
  category: 'data',

  env: {
    SHOPPING_LIST_MAX: z.coerce
      .number()
      .int()
      .positive()
      .default(100)
      .describe('Items on the list'),
  },
  migrations: {
    '001-items': (db) =>
      db.schema
        .createTable('shopping_items')
        .addColumn('name', 'varchar(80)', (column) => column.primaryKey())
        .addColumn('amount', 'integer', (column) => column.notNull())
        .execute(),
  },

  setup({ db, env }) {
    const items = db.withTables<{ shopping_items: ItemsTable }>()
    const list = () => items.selectFrom('shopping_items').selectAll().orderBy('name').execute()
    return {
      list,
      async add(item: ItemsTable): Promise<ItemsTable> {
        if ((await list()).length >= env.SHOPPING_LIST_MAX)
          throw new RuntimeError(
            'CONFLICT',
            `The list holds ${env.SHOPPING_LIST_MAX} items already.`,
            {
              hint: 'Buy something first.',
            },
          )
        await items
          .insertInto('shopping_items')
          .values(item)
          .onConflict((conflict) => conflict.column('name').doUpdateSet({ amount: item.amount }))
          .execute()
        return item
      },
    }
  },

  tools: {
    add_to_shopping_list: {
      description: 'Puts an item on the shopping list, or changes its amount.',
      input: item,
      run: (item, { self }) => self.add(item),
    },
    read_shopping_list: {
      description: 'Everything on the shopping list.',
      effect: 'read',
      input: z.object({}),
      run: (_, { self }) => self.list(),
    },
  },

  routes: {
    'GET /shopping-list': {
      auth: 'bearer',
      summary: 'Everything on the list.',
      run: async (_, { self }) => ({ items: await self.list() }),
    },
    'POST /shopping-list': {
      auth: 'bearer',
      summary: 'Puts an item on the list.',
      answers: { 201: ['application/json'] },
      input: item,
      run: async (item, { self }) => created('/shopping-list', await self.add(item)),
    },
  },
})
